#!/bin/sh
# Say that make has no such command, and which one is spelt most like it: sh tools/nearest.sh labs
set -eu
cd "$(dirname "$0")/.."
sed -n 's/^\([a-z-]*\):.*## .*/\1/p' Makefile | awk -v got="$1" '
function least(a, b, c) { if (b < a) a = b; if (c < a) a = c; return a }
function distance(a, b,    i, j, d) { # letters to insert, leave out or change
    for (i = 0; i <= length(a); i++) d[i, 0] = i
    for (j = 0; j <= length(b); j++) d[0, j] = j
    for (i = 1; i <= length(a); i++) for (j = 1; j <= length(b); j++)
        d[i, j] = least(d[i-1, j] + 1, d[i, j-1] + 1,
                        d[i-1, j-1] + (substr(a, i, 1) != substr(b, j, 1)))
    return d[length(a), length(b)]
}
BEGIN { best = 4 }
{ far = distance(got, $0); if (far < best && far < length($0)) { best = far; found = $0 } }
END {
    hint = found ? "did you mean \047make " found "\047? " : ""
    print "There is no command \047make " got "\047: " hint "\047make help\047 lists them all."
}' >&2
exit 2
