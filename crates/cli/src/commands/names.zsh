# The names of the table, where the line wants one.
_spindle_names() {
    local -a names
    names=(${(f)"$("${(Q)words[1]}" complete-name -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"})
    compadd -a names
}

