
# The names of the table, where the line wants one.
function __spindle_reads_names
    set -l words (commandline -opc)
    set -g __spindle_names ($words[1] complete-name -- $words (commandline -ct) 2>/dev/null)
    set -q __spindle_names[1]
end
complete -c spindle -n __spindle_reads_names -f -a '$__spindle_names'
