# The names of the table, where the line wants one. They are other people's: each is quoted.
_spindle_names() {
    local line=${COMP_LINE:0:COMP_POINT} words name kept=
    # Backslashes go as the shell itself takes them off.
    read -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    name=${words[${#words[@]} - 1]}
    # Where colons end words, what comes before the last one stays.
    [[ $COMP_WORDBREAKS == *:* && $name == *:* ]] && kept=${name%:*}:
    COMPREPLY=()
    while IFS= read -r name; do
        printf -v name %q "${name#"$kept"}"
        COMPREPLY+=("$name")
    done < <("$1" complete-name -- "${words[@]}" 2>/dev/null)
    ((${#COMPREPLY[@]}))
}

