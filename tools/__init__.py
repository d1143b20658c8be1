"""Commands for people who work on the course: make its notebooks, pages and pictures."""

import sys

# It judges addresses in JSON, of which a notebook has none, and to import it takes seven times as
# long as the rest of nbformat does.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
