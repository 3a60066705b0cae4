//! Records, duplicates, the three ways of reading, `$name$`, parents, arrays.

use super::*;

#[test]
fn records() {
    let table = [
        ("a=1; b = 2 \nc=3,d=4\r\ne= x y z ", "a=1|b=2|c=3|d=4|e=x y z"),
        ("flag\nb=2", "b=2|flag=true"),
        ("", ""),
        (";", ""),
        (" \t ;, \n", ""),
        ("A=1\na=2", "A=2"),
        ("y=1\nX=2", "X=2|y=1"),
        ("a=[x=1]\na=[y=2]", "a=[x=1] [y=2]"),
        ("a={x=1}\na={y=2}", "a={y=2}"),
        ("a=[x=1]\na=5", "a=5"),
        ("a=5\na=[x=1]", "a=5 [x=1]"),
        ("a=[x=1]\na=\"\"", "a="),
        ("a=\"\"\na=[x=1]", "a=[x=1]"),
        ("a=\"x;y,z\"; b=2", "a=x;y,z|b=2"),
        ("a=\"  p  \"", "a=p"),
        ("a=\"\"", "a="),
        ("a=\"q\" t; b=1", "a=q|b=1|t=true"),
        ("a=x(1;2)y;b=1", "a=x(1;2)|b=1|y=true"),
        ("a=pre\"q;r\"post", "a=pre\"q;r\"|post=true"),
        ("a = pre [x]", "a=pre [x]"),
        ("a=[x=1]b=3", "a=[x=1]|b=3"),
        ("a[x=1];b(y);c\"z\"", "a=[x=1]|b=(y)|c=z"),
        ("f(x)=y", "f=(x)"),
        ("a=b=c", "a=b=c"),
        ("a b = c", "a b=c"),
        ("a=1 // c", "a=1 // c"),
        ("=5;b=1", "b=1"),
        ("=[x]b=1", "b=1"),
        ("[a=1;[b=2]];c=3", "a=1|c=3"),
        ("[a=1;b=2]", "a=1|b=2"),
        ("{a=1;b=2}", "a=1|b=2"),
        ("(a=1;b=2)", "a=1|b=2"),
        ("[-a=1-b=2]", "a=1|b=2"),
        ("[|a=1|b=2|]c=3", "a=1|b=2|c=3"),
        ("[..a=1;b=2]", "..a=1|b=2"),
        ("[_x=1;b=2]", "x=1;b=2"),
        ("a=b]", "a=b]"),
        ("a='b;c'", "a='b|c'=true"),
        ("a=\"b\\\"c\"d\"", "a=b\\|c=d"),
        ("[\"a=1\" b=2]", "a=1|b=2"),
        ("[\"a=[x=1]\" b=2]", "a=[x=1]|b=2"),
        ("a=é;ü=[ö]", "a=é|ü=[ö]"),
        ("a= ,b=1", "a= ,b=1"),
    ];
    for (text, expected) in table {
        match root(text) {
            // The one line that is not a record at all.
            Err(error) => {
                assert_eq!((text, error.message()), ("a= ,b=1", "ParseValue: No value given for 'a'."))
            }
            Ok(section) => assert_eq!(shown(&section), expected, "{text}"),
        }
    }
}

#[test]
fn broken_texts() {
    assert_error(root("a=;b=2"), I, "ParseValue: No value given for 'a'.");
    assert_error(root("a=\nb=2"), I, "ParseValue: No value given for 'a'.");
    assert_error(root("[a=]"), I, "ParseValue: No value given for 'a'.");
    assert_error(root("=;b=2"), I, "ParseValue: No value given for ''.");
    assert_error(root("a=(b);\"\""), R, "no closing \" found in parameters");
    assert_error(root("\" [x=\"d;e\"]"), R, "no closing \" found in parameters");
    let substr = |size| {
        format!(
            "basic_string::substr: __pos (which is 18446744073709551615) > this->size() (which is {size})"
        )
    };
    assert_error(root("a="), L, &substr(2));
    assert_error(root("a=  "), L, &substr(4));
    assert_error(root("a=[b)"), R, "unmatched bracket found in parameters");
    assert_error(root("a=[b"), R, "no closing ] found in parameters");
    assert_error(root("a={(b"), R, "no closing ) found in parameters");
    assert_error(root("a={(\"b)"), R, "no closing \" found in parameters");
    assert_error(root("\"a=1;b=2\""), R, "no closing \" found in parameters");
    assert_error(root("[\"x=\" y]"), R, "no closing \" found in parameters");
    assert_error(root("[\"x=[a]y=[b]\"]"), R, "no closing \" found in parameters");
}

#[test]
fn broken_texts_are_explained() {
    let line = "in line 1 of the configuration";
    let pairs = "The quotes of this line do not come in pairs: add the one that is missing.";
    let quote = "A '#' after a blank begins a comment inside quotes too.";
    let empty = "For an empty value write 'a = \"\"'.";
    for (text, detail, column) in [
        ("a=[b)", format!("')' comes before the ']' that closes '[' {line}."), 5),
        ("a={b(c}", format!("'}}' comes before the ')' that closes '(' {line}."), 7),
        ("a=([b]]", format!("']' comes before the ')' that closes '(' {line}."), 7),
        ("a=[b", format!("'[' {line} is never closed: add the ']' where it ends."), 3),
        ("a={(b", format!("'(' {line} is never closed: add the ')' where it ends."), 4),
        ("a={(b)", format!("'{{' {line} is never closed: add the '}}' where it ends."), 3),
        ("a=\"b]", format!("'\"' {line} is never closed: add the '\"' where it ends. {quote}"), 3),
        // The place is where the quote is probably missing.
        (
            "a=\"b=\" c\"]",
            format!("'\"' {line} is never closed: add the '\"' where it ends. {quote} {pairs}"),
            3,
        ),
        (" a=", format!("The text ends after 'a ='. {empty}"), 2),
        ("b=1; a= ;", format!("'a' has no value. {empty}"), 6),
    ] {
        let error = root(text).unwrap_err();
        assert_eq!((error.detail(), error.location().column), (&*detail, Some(column)), "{text}");
    }
    let generated = Section::parse_source("u", &source::SourceText::generated("a=[b)")).unwrap_err();
    assert_eq!(generated.detail(), "')' comes before the ']' that closes '['.");
    assert_eq!(generated.location().line, None);
}

#[test]
fn blocks_of_one_key_merge_when_opened() {
    let section = root("a=[x=1;z=1]\na=[y=2;z=2]").unwrap().section("a").unwrap();
    assert_eq!(shown(&section), "x=1|y=2|z=2");
    let section = root("a=5\na=[x=1]").unwrap().section("a").unwrap();
    assert_eq!(shown(&section), "5=[x=1]");
}

#[test]
fn reads_by_name_strip_comments() {
    let section = root("b=1 # two\nc=x#y # z\nd=#all").unwrap();
    assert_eq!(section.text("b").unwrap(), "1 ");
    assert_eq!(section.text("c").unwrap(), "x#y # z");
    assert_eq!(section.text_or("d", "D").unwrap(), "");
    assert_error(section.text("d"), R, "configparameters: required parameter missing: global:d");
    assert_error(section.get_or("b", 0u64), R, "ConfigValue (uint64_t): invalid input string '1 # two'");
    assert_error(
        root("a=\"x # y\"").unwrap().section("q"),
        R,
        "configparameters: required parameter missing: global:q",
    );
    let outer = root("s=[a=\"x # y\"\n]").unwrap();
    assert_error(outer.section("s"), R, "no closing \" found in parameters");
}

#[test]
fn the_three_ways_of_reading() {
    let section = root("e=\"\";d=default;D2=Default;n=7").unwrap();
    for key in ["e", "d", "absent"] {
        let message = format!("configparameters: required parameter missing: global:{key}");
        assert_error(section.text(key), R, &message);
    }
    assert_eq!(section.text("d2").unwrap(), "Default");
    assert_eq!(section.required::<u32>("N").unwrap(), 7);
    for (key, expected) in [("e", ""), ("d", "D"), ("absent", "D"), ("n", "7")] {
        assert_eq!(section.text_or(key, "D").unwrap(), expected);
    }
    assert!(!section.get_or("e", true).unwrap());
    assert!(section.get_or("d", true).unwrap());
    assert_error(section.get_or("e", 1i32), R, "ConfigValue (long): invalid input string ''");
    assert_eq!(section.parsed_or("absent", 0.5).unwrap(), 0.5);
    assert_error(section.parsed_or("e", 0.5), R, "ConfigValue (double): invalid input string ''");
    assert!(root("a= true ").unwrap().get_or("a", false).unwrap());
    assert_eq!(root("a=1,5").unwrap().get_or("a", 0.0).unwrap(), 1.0);
}

#[test]
fn variables_are_expanded() {
    let table = [
        ("a=1\nb=x$a$y$a$", "x1y1"),
        ("b=$c", "$c"),
        ("b=a$$b", "a$$b"),
        ("a=1\nb=$$a$", "$$a$"),
        ("a=1\nb=$1$a$", "$11"),
        ("a=1\nb=$$$a$", "$$1"),
        ("b=$1$", "$1$"),
        ("b=$ a$", "$ a$"),
        ("a=1\nb=x$a", "x$a"),
        ("c=5\nb=A$a b$c$", "A$a b5"),
        ("c=\"\"\nb=x$c$y", "xy"),
        ("c=5 # five\nb=x$c$y", "x5 y"),
        ("a-b.1=2\nb=$a-b.1$", "2"),
        ("_a=2\nb=$_A$", "2"),
        ("dir=/d\nb=\"$dir$/f.txt\"", "/d/f.txt"),
        ("a=$c$\nc=$d$3\nd=1\nb=$a$", "13"),
    ];
    for (text, expected) in table {
        assert_eq!(root(text).unwrap().text("b").unwrap(), expected, "{text}");
    }
}

#[test]
fn variables_that_cannot_be_expanded() {
    let missing = |name: &str, line: &str| {
        format!("No variable found with the name {name}. Parsing of string failed: global:{line}")
    };
    assert_error(root("b=$c$").unwrap().text("b"), R, &missing("c", "$c$"));
    assert_error(root("c=default\nb=$c$").unwrap().text("b"), R, &missing("c", "$c$"));
    assert_error(root("x=1\nb=A$x$y$c$ # no").unwrap().text("b"), R, &missing("c", "A1y$c$ "));
    assert_error(root("sec=[a=2\nb=$a$]").unwrap().section("sec"), R, &missing("a", "b=$a$]"));
    let newline = "Newline characters are not allowed in the value of a variable which is resolved using $varName$ feature";
    assert_error(root("a=[\nx=1\n]\nb=$a$").unwrap().text("b"), L, newline);
    assert_error(
        root("a=1\nb=$a$").unwrap().get_or("b", 0u64),
        R,
        "ConfigValue (uint64_t): invalid input string '$a$'",
    );
}

#[test]
fn sections_are_expanded_in_the_enclosing_scope() {
    let outer = root("a=1\nsec=[a=2\nb=$a$]").unwrap();
    assert_eq!(outer.section("sec").unwrap().text("b").unwrap(), "1");
    // A typed read does not expand, but opening the section already has.
    let outer = root("r=false\nsec=[randomize=$R$]").unwrap();
    assert!(!outer.section("sec").unwrap().get_or("randomize", true).unwrap());
    let outer = root("r=false\nrandomize=$R$").unwrap();
    assert_error(outer.get_or("randomize", true), R, "ConfigValue (bool): boolean argument expected");
}

#[test]
fn text_of_several_lines_is_expanded_line_by_line() {
    let section = root("a=1\nb=[x=$a$\n\n  # gone\ny=2 # c\n]").unwrap();
    assert_eq!(section.text("b").unwrap(), "[x=1\n\ny=2 \n]\n");
}

#[test]
fn absent_keys_are_looked_up_outwards() {
    let outer = root("x=1\nsec=[y=2;inner=[z=3]]").unwrap();
    let section = outer.section("sec").unwrap();
    assert_eq!(section.text("x").unwrap(), "1");
    assert!(section.exists("x") && !section.exists_here("x") && section.exists_here("y"));
    let inner = section.section("inner").unwrap();
    assert_eq!(inner.path(), "global:sec:inner");
    assert_eq!(inner.get_or("x", 0u64).unwrap(), 1);
    assert_eq!(inner.text_or("Y", "").unwrap(), "2");
    assert_error(inner.text("w"), R, "configparameters: required parameter missing: global:sec:inner:w");

    // `default` selects the built-in default, not an outer value.
    let section = root("x=1\nsec=[x=default]").unwrap().section("sec").unwrap();
    assert_eq!(section.text_or("x", "D").unwrap(), "D");
    assert_eq!(section.get_or("x", 9u64).unwrap(), 9);
    assert_error(section.text("x"), R, "configparameters: required parameter missing: global:sec:x");
}

#[test]
fn array_elements_have_no_parent() {
    let outer = root("x=1\nd=([type=A]:[type=B])").unwrap();
    let elements = outer.array_or_empty("d").unwrap().sections().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(elements[1].path(), "global:d[1]");
    assert_eq!(elements[1].text("type").unwrap(), "B");
    assert!(elements[0].parent().is_none() && !elements[0].exists("x"));
    assert_error(elements[1].text("x"), R, "configparameters: required parameter missing: global:d[1]:x");
}

#[test]
fn arrays() {
    let table: [(&str, &[&str]); 32] = [
        ("(1*3:2)", &["1", "1", "1", "2"]),
        ("(1,2,3)", &["1", "2", "3"]),
        ("(1\n2\n3)", &["1", "2", "3"]),
        ("{1:2}", &["1", "2"]),
        ("[1:2]", &["1", "2"]),
        ("1:", &["1"]),
        ("::1", &["1"]),
        ("5", &["5"]),
        ("()", &[]),
        ("", &[]),
        ("(1*)", &[]),
        ("(1:2*:3)", &["1"]),
        ("*2", &["", ""]),
        ("(1*0:2*-1)", &[]),
        ("(1 * 2)", &["1", "1"]),
        ("(\"q*2\")", &["q", "q"]),
        ("(-1:2)", &["1:2"]),
        ("(\n-1:2)", &["-1", "2"]),
        ("-1:2", &["-1", "2"]),
        ("(.5:1)", &["5:1"]),
        ("(..\\a:b)", &["..\\a", "b"]),
        ("(./a:b)", &["./a", "b"]),
        ("(.\\a:b)", &[".\\a", "b"]),
        ("(;a;b:c;d)", &["a", "b:c", "d"]),
        ("(\"a:b\":c)", &["a:b", "c"]),
        ("(a;b)", &["a;b"]),
        ("([x=1]*2)", &["[x=1]"]),
        ("([x=1][y=2])", &["[x=1]", "[y=2]"]),
        ("([x=1];[y=2])", &["[x=1]", ";[y=2]"]),
        ("c:\\dir", &["c", "\\dir"]),
        ("[t=A;m=B]", &["t=A;m=B"]),
        ("[\nt=A\nm=B\n]", &["t=A", "m=B"]),
    ];
    for (text, expected) in table {
        let array = Array::open("a".into(), &source::SourceText::written(text), Default::default()).unwrap();
        // A star after a bracket yields an empty text, twice.
        let expected: &[&str] = if text == "([x=1]*2)" { &["[x=1]", "", ""] } else { expected };
        assert_eq!(array.texts(), expected, "{text}");
    }
    let open = |text| Array::open("a".into(), &source::SourceText::written(text), Default::default());
    assert_error(open("a*b"), R, "ConfigValue (long): invalid input string 'b'");
    assert_error(open("3*2*2"), R, "ConfigValue (long): invalid input string '2*2'");
    assert_error(open("(1* :2)"), R, "ConfigValue (long): invalid input string ''");
    assert_error(open("1*3000000000"), R, "ConfigValue (int): integer argument expected");
    assert_error(open("\"a\":\"b\""), R, "no closing \" found in parameters");
}

#[test]
fn arrays_of_values() {
    let section = root("n=(1:2*3)\nh=0.5\np=a\nq=(x:$p$)").unwrap();
    let values = section.array_or_empty("n").unwrap().values::<i32>().unwrap();
    assert_eq!(values, [1, 2, 2, 2]);
    let half = section.array_or_empty("h").unwrap();
    assert_error(half.values::<i32>(), R, "ConfigValue (long): invalid input string '0.5'");
    assert_eq!(section.array("q").unwrap().texts(), ["x", "a"]);
    assert_eq!(section.array_or_empty("q").unwrap().texts(), ["x", "$p$"]);
    assert_eq!(section.array_or("absent", "0.0").unwrap().values::<f32>().unwrap(), [0.0]);
}

#[test]
fn walking_over_all_keys_opens_any_text() {
    let section = root("a=default;b=\"\";c=5").unwrap();
    let shown: Vec<_> = section.keys().map(|key| shown(&section.child(key).unwrap())).collect();
    assert_eq!(shown, ["default=true", "", "5=true"]);
    assert_eq!(section.child("a").unwrap().path(), "global:a");
}

#[test]
fn values_can_be_put_into_a_section() {
    let section = root("A=1;b=2").unwrap().with(&[("a", "3"), ("c", "4")]);
    assert_eq!(shown(&section), "A=3|b=2|c=4");
}
