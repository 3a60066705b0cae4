# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_cntk_reader_global_optspecs
    string join \n q/quiet threads= reader= format= h/help V/version
end

function __fish_cntk_reader_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_cntk_reader_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_cntk_reader_using_subcommand
    set -l cmd (__fish_cntk_reader_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -s V -l version -d 'Print version'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "info" -d 'Show what a file or a configuration has: streams, dimensions, sequences, chunks'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "validate" -d 'Find everything that is wrong with the data: all errors and warnings, in the order of the data'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "head" -d 'Show the first sequences, or those with given keys'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "sample" -d 'Show some sequences from all over the data'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "index" -d 'Make the index caches of text files, or check them'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "convert" -d 'Convert data from one format to another'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "merge" -d 'Put the reports of parts together, and check that nothing is missing or doubled'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "bench" -d 'Time the stages of reading, each alone, and all of them together'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "order" -d 'Show in which order sequences are read, and how well that mixes them'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "report" -d 'Write an HTML page about a data set: streams, lengths, values, classes, shuffling, findings, samples'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "completions" -d 'Print the completions of a shell'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "man" -d 'Write the manual pages of all commands'
complete -c cntk-reader -n "__fish_cntk_reader_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l stream -d 'A stream, NAME[=COLUMNS][:TYPE], as `convert` takes it [default: inferred]; NAME alone for Arrow and Parquet files [default: all]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l key-column -d 'The column of keys; consecutive records with the same key are the steps of one sequence' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l delimiter -d 'The character between the fields of a table, or tab, or blanks [default: by the first line]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l columns -d 'Names of the columns, with commas between them' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l missing -d 'Number in place of missing ones (empty, NA, NaN, null) [default: they are errors]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l first-index -d 'The smallest index of pairs index:value [default: 1, unless 0 occurs]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l like -d 'The streams and categories of an earlier conversion: its OUTPUT.streams.json' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l config -d 'Print a configuration that reads the data file'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l full -d 'Read everything, even if there is an index'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l header -d 'The first row of a table has names [default: if none of them is a number]'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -l no-header -d 'The first row of a table has values'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -l max-errors -d 'Stop after this many errors and warnings; 0: no limit' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -l part -d 'Do only part K of N equal parts of the data, from 1; `cntk-reader merge` puts their reports (--format json) together' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -l fail-fast -d 'Stop after the first error or warning'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -s n -l number -d 'Number of sequences' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l npy -d 'Write the sequences to this folder as NumPy arrays instead of showing them' -r -F
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l key -d 'Show the sequence with this key; may be given several times' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l stream -d 'A stream, NAME[=COLUMNS][:TYPE], as `convert` takes it [default: inferred]; NAME alone for Arrow and Parquet files [default: all]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l key-column -d 'The column of keys; consecutive records with the same key are the steps of one sequence' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l delimiter -d 'The character between the fields of a table, or tab, or blanks [default: by the first line]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l columns -d 'Names of the columns, with commas between them' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l missing -d 'Number in place of missing ones (empty, NA, NaN, null) [default: they are errors]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l first-index -d 'The smallest index of pairs index:value [default: 1, unless 0 occurs]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l like -d 'The streams and categories of an earlier conversion: its OUTPUT.streams.json' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l header -d 'The first row of a table has names [default: if none of them is a number]'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -l no-header -d 'The first row of a table has values'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand head" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -s n -l number -d 'Number of sequences' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -l npy -d 'Write the sequences to this folder as NumPy arrays instead of showing them' -r -F
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -l seed -d 'Seed of the draw; another seed draws other sequences' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand sample" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -l part -d 'Do only part K of N equal parts of the data, from 1; `cntk-reader merge` puts their reports (--format json) together' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -l check -d 'Make no cache; exit with 1 if one is missing or does not fit its data'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -l force -d 'Rebuild the caches, even if they fit'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand index" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l from -d 'Format of the input [default: by its content]' -r -f -a "config\t'A configuration; input only'
ctf\t'CNTK\'s text format'
cbf\t'CNTK\'s binary format'
npy\t'One NumPy array'
npz\t'An archive of NumPy arrays'
htk\t'HTK features, by their script'
kaldi\t'A Kaldi script or archive'
mlf\t'Labels (HTK master label file)'
arrow\t'An Arrow file (IPC, Feather)'
parquet\t'A Parquet file'
csv\t'A table with commas or semicolons; input only'
tsv\t'A table with tabs; input only'
blanks\t'A table with blanks; input only'
jsonl\t'JSON lines; input only'
libsvm\t'LIBSVM\'s format; input only'
vw\t'Vowpal Wabbit\'s format; input only'
conll\t'Words in columns; input only'
images\t'A folder of images; input only'
map\t'A map of images; output only'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l to -d 'Format of the output [default: by its extension]' -r -f -a "config\t'A configuration; input only'
ctf\t'CNTK\'s text format'
cbf\t'CNTK\'s binary format'
npy\t'One NumPy array'
npz\t'An archive of NumPy arrays'
htk\t'HTK features, by their script'
kaldi\t'A Kaldi script or archive'
mlf\t'Labels (HTK master label file)'
arrow\t'An Arrow file (IPC, Feather)'
parquet\t'A Parquet file'
csv\t'A table with commas or semicolons; input only'
tsv\t'A table with tabs; input only'
blanks\t'A table with blanks; input only'
jsonl\t'JSON lines; input only'
libsvm\t'LIBSVM\'s format; input only'
vw\t'Vowpal Wabbit\'s format; input only'
conll\t'Words in columns; input only'
images\t'A folder of images; input only'
map\t'A map of images; output only'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l stream -d 'Streams to write [default: all]; for an npy input, the name of its stream; for mlf, the stream of labels; for tables and alike NAME[=COLUMNS][:TYPE], with dense, category, index, index=DIM or a type of dense values such as uint8 as TYPE' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l one-hot -d 'An array or column of class numbers, which becomes a sparse stream with a 1 at the class' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l precision -d 'Write all values as floats of this precision [default: the input\'s types]' -r -f -a "float\t''
double\t''"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l chunk-size -d 'Size of the chunks of a binary file [default: 33554432]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l compress -d 'Compress the text or binary output [default: if its name ends in .zst]' -r -f -a "zstd\t'Independent frames, which readers decompress one by one'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l level -d 'Level of compression, from 1, the fastest, to 22, the smallest [default: 9]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l script -d 'For HTK and Kaldi archives: the script to write, which lists their utterances' -r -F
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l states -d 'For labels: the list of states, if lines have no class numbers' -r -F
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l key-column -d 'The column of keys; consecutive records with the same key are the steps of one sequence' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l delimiter -d 'The character between the fields of a table, or tab, or blanks [default: by the first line]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l columns -d 'Names of the columns, with commas between them' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l missing -d 'Number in place of missing ones (empty, NA, NaN, null) [default: they are errors]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l first-index -d 'The smallest index of pairs index:value [default: 1, unless 0 occurs]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l like -d 'The streams and categories of an earlier conversion: its OUTPUT.streams.json' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l part -d 'Do only part K of N equal parts of the data, from 1; `cntk-reader merge` puts their reports (--format json) together' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l number-ids -d 'Number the sequences from 0 instead of writing their keys'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l no-verify -d 'Do not read the output back to verify it'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l header -d 'The first row of a table has names [default: if none of them is a number]'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -l no-header -d 'The first row of a table has values'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand convert" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand merge" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand merge" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand merge" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand merge" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand merge" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l stages -d 'Stages to time' -r -f -a "read\t''
index\t''
parse\t''
randomize\t''
pack\t''
all\t''"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l threads-list -d 'Numbers of threads [default: --threads, or 1, 2, 4 ... up to the number of CPUs]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l repetitions -d 'Number of times each stage is timed' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l minibatch-size -d 'Minibatch size in samples' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l pack-size -d 'Amount of data to hold in memory for packing, in MB of their files' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l seed -d 'Seed of the randomization [default: the configuration\'s]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l window-chunks -d 'Randomization window in chunks [default: the configuration\'s]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l window-samples -d 'Randomization window in samples' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l sweep -d 'The first sweep, from 0' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l sweeps -d 'Number of sweeps' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l workers -d 'Number of workers that share the data' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l rank -d 'The worker whose share is shown, from 0 [default: 0 if there is one worker]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l minibatch-size -d 'Minibatch size in samples' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l at -d 'Resume at this sample, counted from the start of sweep 0: the position in CNTK\'s checkpoints' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -s n -d 'List this many sequences [default: a report on a terminal, elsewhere all sequences]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l svg -d 'Plot how well the order mixes the data, and report it' -r -F
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l no-randomize -d 'Use the order of the data, without randomization'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l digest -d 'Show only a digest of the order'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -l report -d 'Report how well the order mixes the data'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand order" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -s o -l output -d 'The page; an existing file is replaced [default: the name of the first file, with .html appended]' -r -F
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -l minibatch-size -d 'Minibatch sizes in samples, for shuffling and padding' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -l sequences -d 'Number of sequences that values and classes are counted in' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -l samples -d 'Number of sequences shown' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -l seed -d 'Seed of the draw; another seed draws other sequences' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand completions" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand completions" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand completions" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand completions" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand man" -l threads -d 'Threads that load and parse [default: the CPUs that the process may use]' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand man" -l reader -d 'The reader to use if a configuration has several, by the keys that lead to it: train.reader' -r
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand man" -l format -d 'Format of the results [default: table on a terminal; elsewhere as each command says]' -r -f -a "table\t'For people'
json\t'One JSON value'
ndjson\t'One JSON value per line'"
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand man" -s q -l quiet -d 'Show no progress and no messages except errors'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "info" -d 'Show what a file or a configuration has: streams, dimensions, sequences, chunks'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "validate" -d 'Find everything that is wrong with the data: all errors and warnings, in the order of the data'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "head" -d 'Show the first sequences, or those with given keys'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "sample" -d 'Show some sequences from all over the data'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "index" -d 'Make the index caches of text files, or check them'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "convert" -d 'Convert data from one format to another'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "merge" -d 'Put the reports of parts together, and check that nothing is missing or doubled'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "bench" -d 'Time the stages of reading, each alone, and all of them together'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "order" -d 'Show in which order sequences are read, and how well that mixes them'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "report" -d 'Write an HTML page about a data set: streams, lengths, values, classes, shuffling, findings, samples'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "completions" -d 'Print the completions of a shell'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "man" -d 'Write the manual pages of all commands'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c cntk-reader -n "__fish_cntk_reader_using_subcommand completions" -f -a "bash zsh fish"
