#![no_main]
cntk_reader_fuzz::target!(arrays);
