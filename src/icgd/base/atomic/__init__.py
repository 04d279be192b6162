"""Files on disk: whole or not at all, several together or none, and one writer at a time."""

from icgd.base.atomic.file_set import finish_move as finish_move
from icgd.base.atomic.file_set import staged as staged
from icgd.base.atomic.file_set import staged_together as staged_together
from icgd.base.atomic.lock import only_writer as only_writer
from icgd.base.atomic.whole_file import write_bytes as write_bytes
from icgd.base.atomic.whole_file import write_text as write_text
from icgd.base.atomic.whole_file import write_whole as write_whole
