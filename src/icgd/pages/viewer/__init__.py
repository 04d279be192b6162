"""The trace viewer: one self-contained page that shows a recorded run, and a server for it."""

from icgd.pages.viewer.page import page as page
from icgd.pages.viewer.page import write_page as write_page
from icgd.pages.viewer.server import Server as Server
from icgd.pages.viewer.server import serve as serve
