# header-page.awk: write a man page in mdoc from a public header and its comments.
#
#     awk -v name=sorter -v library=shardfmt -v date="November 22, 2026" -f header-page.awk sorter.h
#
# The header is laid out by clang-format and starts with a comment `sorter.h: description`. A comment at
# the start of a line describes the declarations that follow it, up to an empty line or the next comment.

function out(line) {
    body = body line "\n"
}

function escape(line) {
    gsub(/\\/, "\\e", line)
    return (line ~ /^[.']/ ? "\\&" : "") line
}

function end_example() {
    if (in_example)
        out(".Ed")
    in_example = 0
}

function end_list() {
    end_example()
    if (in_list)
        out(".El")
    in_list = 0
}

# Adds a line of a comment. An indented line is an example, except in the list of parameters.
function add_text(line,   parameters) {
    if (line == "") {
        end_list()
        wants_paragraph = has_text
        return
    }
    if (!in_list && line ~ /^    /) {
        if (!in_example)
            out(".Bd -literal -offset indent")
        in_example = has_text = 1
        wants_paragraph = 0
        out(escape(substr(line, 5)))
        return
    }
    end_example()
    if (sub(/^@param /, "", line)) {
        if (!in_list)
            out(".Bl -tag -width Ds")
        in_list = 1
        wants_paragraph = 0
        match(line " ", /^[a-z0-9_]+(, [a-z0-9_]+)* +/)
        parameters = substr(line, 1, RLENGTH)
        gsub(/,/, " , Fa", parameters)
        sub(/ +$/, "", parameters)
        out(".It Fa " parameters)
        line = substr(line, RLENGTH + 1)
    } else if (sub(/^@return/, "Returns", line)) {
        end_list()
        wants_paragraph = has_text
    }
    if (wants_paragraph)
        out(".Pp")
    has_text = 1
    wants_paragraph = 0
    sub(/^ +/, "", line)
    while (match(line, /[A-Za-z0-9_)"'][.?!] +[A-Z]/)) { # each sentence on a line, as roff wants it
        out(escape(substr(line, 1, RSTART + 1)))
        line = substr(line, RSTART + RLENGTH - 1)
    }
    if (line != "")
        out(escape(line))
}

function add_comment(   i) {
    for (i = 0; i < comment_lines; i++)
        add_text(comment[i])
    end_list()
    comment_lines = 0
}

# Adds `type name(arguments)` to the synopsis.
function add_function(text,   i, start, depth, c) {
    match(text, /spsh_[a-z0-9_]+\(/)
    names = names "," substr(text, RSTART, RLENGTH - 1)
    synopsis = synopsis ".Ft " substr(text, 1, RSTART - 1) "\n.Fo " substr(text, RSTART, RLENGTH - 1) "\n"
    out(".It Fn " substr(text, RSTART, RLENGTH - 1))
    start = RSTART + RLENGTH
    for (i = start; depth >= 0; i++) {
        c = substr(text, i, 1)
        depth += (c == "(") - (c == ")" || c == "")
        if (depth < 0 || (depth == 0 && c == ",")) {
            synopsis = synopsis ".Fa \"" substr(text, start, i - start) "\"\n"
            start = i + 2
        }
    }
    synopsis = synopsis ".Fc\n"
}

# Adds the comment and the declarations that were read.
function end_block() {
    if (comment_lines == 1 && comment[0] ~ /^-+ .* -+$/) {
        gsub(/^-+ | -+$/, "", comment[0])
        out(".Ss " comment[0])
        has_text = comment_lines = 0
    }
    if (code ~ /^SPSH_API/) {
        gsub(/SPSH_API |SPSH_NODISCARD /, "", code)
        gsub(/[ \n]+/, " ", code)
        out(".Bl -tag -width Ds")
        add_function(code)
        has_text = wants_paragraph = 0
        add_comment()
        out(".El")
    } else {
        wants_paragraph = has_text
        add_comment()
        if (code != "")
            body = body ".Bd -literal\n" escape(code) ".Ed\n"
    }
    has_text = has_text || code != ""
    code = ""
}

# The first sentence of the header is the description of the page.
function end_opening(   end) {
    match(summary " ", /[.] /)
    end = RSTART
    add_text(substr(summary, end ? end + 2 : length(summary) + 1))
    if (end)
        summary = substr(summary, 1, end - 1)
    is_open = 1
}

NR == 1 {
    sub(/^\/\* [a-z0-9_]+\.h: /, "")
    in_comment = in_summary = 1
}
/^\/\* clang-format/ || /^#include/ || /^#ifndef SPEECHSHARD_/ || /^#define SPEECHSHARD_[A-Z_]+_H$/ ||
    /^#ifdef __cplusplus/ || /^extern "C"/ || /^}$/ {
    next
}
NR > 1 && /^\/\*/ {
    end_block()
    in_comment = 1
    sub(/^\/\*\*? ?/, "")
    if ($0 == "")
        next
}
in_comment {
    is_end = sub(/ *\*\/$/, "")
    sub(/^ \* ?/, "")
    if (in_summary && $0 != "" && !/^    /)
        summary = summary (summary == "" ? "" : " ") $0
    else if (!is_end || $0 != "")
        comment[comment_lines++] = $0
    in_summary = in_summary && $0 != "" && !is_end
    in_comment = !is_end
    if (is_end && !is_open) {
        end_opening()
        end_block()
    }
    next
}
/^$/ && !in_braces {
    end_block()
    next
}
/^#if/ {
    conditions++
}
/^#endif/ && conditions-- <= 0 {
    conditions = 0
    next
}
{
    if (/^SPSH_API/ && code != "")
        end_block()
    in_braces = in_braces ? !/^}/ : /[{]$/
    if (code $0 ~ /^SPSH_API/ && match($0, /;/)) { # one function is one block
        line = substr($0, RSTART + 1)
        $0 = substr($0, 1, RSTART)
        if (gsub(/^ *\/\* *| *\*\/$/, "", line))
            comment[comment_lines++] = line
    }
    code = code $0 "\n"
    if (code ~ /^SPSH_API.*;\n$/)
        end_block()
}
END {
    end_block()
    gsub(/,/, " ,\n.Nm ", names)
    printf ".Dd %s\n.Dt SPEECHSHARD-%s 3\n.Os\n", date, toupper(name)
    printf ".Sh NAME\n.Nm speechshard-%s%s\n.Nd %s\n", name, names, summary
    printf ".Sh LIBRARY\n.Li libspeechshard-%s\n.Pp\n", library
    printf ".Dl cc program.c $(pkg-config --cflags --libs speechshard-%s)\n", library
    printf ".Sh SYNOPSIS\n.In speechshard/%s.h\n%s.Sh DESCRIPTION\n%s", name, synopsis, body
    printf ".Sh SEE ALSO\n.Xr speechshard 1 ,\n.Xr speechshard-format 5\n"
}
