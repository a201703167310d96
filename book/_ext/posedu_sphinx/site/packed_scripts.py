"""Data in scripts, packed: hosts that compress nothing send a third of the bytes.

A browser unpacks them itself, also in a site that is opened from a folder. The archive
of the site, which is compressed as a whole, has them unpacked.
"""

import base64
import gzip
import json
import re

UNPACK = (
    "(p=>new Response(new Blob([Uint8Array.from(atob(p),c=>c.charCodeAt())]).stream()"
    '.pipeThrough(new DecompressionStream("gzip"))).text())'
)
PACKED = re.compile(re.escape(UNPACK) + r'\("([^"]*)"\)')


def packed(text):
    """Return an expression of JavaScript: a promise of the text."""
    data = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0))
    return f'{UNPACK}("{data.decode()}")'


def unpacked(script):
    """Return a script in which every packed text is plain; nothing else changes."""
    return PACKED.sub(lambda found: f"Promise.resolve({_plain(found[1])})", script)


def _plain(data):
    return json.dumps(gzip.decompress(base64.b64decode(data)).decode())
