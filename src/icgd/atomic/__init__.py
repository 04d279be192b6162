"""Files on disk: whole or not at all, several together or none, and one writer at a time."""

from icgd.atomic.file_set import finish_move as finish_move
from icgd.atomic.file_set import staged as staged
from icgd.atomic.file_set import staged_together as staged_together
from icgd.atomic.lock import only_writer as only_writer
from icgd.atomic.whole_file import write_bytes as write_bytes
from icgd.atomic.whole_file import write_text as write_text
from icgd.atomic.whole_file import write_whole as write_whole
