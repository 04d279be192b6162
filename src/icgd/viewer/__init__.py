"""The trace viewer: one self-contained page that shows a recorded run, and a server for it."""

from icgd.viewer.page import page as page
from icgd.viewer.page import write_page as write_page
from icgd.viewer.server import Server as Server
from icgd.viewer.server import serve as serve
