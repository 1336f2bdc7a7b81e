//! Payloads and their places, for every split of the input.

use super::{InputError, PayloadReader};

type Row = (String, usize, usize, bool);

fn read(parts: &[&[u8]]) -> (Vec<Row>, Result<(), InputError>) {
    let mut reader = PayloadReader::default();
    let mut result = Ok(());
    for part in parts {
        result = result.and_then(|()| reader.handle_bytes(part));
    }
    result = result.and_then(|()| reader.handle_eof());
    let payloads = std::iter::from_fn(|| reader.poll_payload())
        .map(|p| (p.text.to_string(), p.place.line, p.place.indent, p.is_cut))
        .collect();
    (payloads, result)
}

fn row(text: &str, line: usize, indent: usize, is_cut: bool) -> Row {
    (text.to_owned(), line, indent, is_cut)
}

#[test]
fn server_sent_events_have_the_place_of_their_data() {
    let input = b": hello\n\nevent: x\ndata: {\"a\":\ndata: 1}\r\n\r\ndata:{}\n\nid: 4\n\ndata: {\"b\"";
    let (payloads, result) = read(&[input]);
    assert_eq!(result, Ok(()));
    assert_eq!(
        payloads,
        [row("{\"a\":\n1}", 4, 6, false), row("{}", 7, 5, false), row("{\"b\"", 11, 6, true)]
    );
}

#[test]
fn json_values_lie_on_one_line_or_on_several() {
    let input = b"\xef\xbb\xbf{\"a\": 1}\n\n  {\n \"b\": [\"}\\\"\"]\n}\r\n{\"c\": [";
    let (payloads, result) = read(&[input]);
    assert_eq!(result, Ok(()));
    assert_eq!(
        payloads,
        [
            row("{\"a\": 1}", 1, 0, false),
            row("  {\n \"b\": [\"}\\\"\"]\n}", 3, 0, false),
            row("{\"c\": [", 6, 0, true)
        ]
    );
}

#[test]
fn any_cut_gives_the_same_payloads() {
    for input in [
        &b"data: {\"a\":\ndata: 1}\r\n\r\n: x\ndata: {\"\xc3\xa9\":2}\n\n"[..],
        b"{\"a\": 1}\n{\n\"b\": 2\n}\n{\"c\": \"\xc3\xa9\"}",
    ] {
        let whole = read(&[input]);
        for at in 0..=input.len() {
            assert_eq!(read(&[&input[..at], &input[at..]]), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }
}

#[test]
fn what_is_neither_is_told_with_its_place() {
    for (input, line, column) in [
        (&b"\n<html>\n"[..], 2, 1),
        (b"{\"a\":1}\n{\"b\":\"\xff\"}\n", 2, 7),
        (b": x\ndata: {\"b\":\"\xff\"}\n\n", 2, 13),
    ] {
        let error = read(&[input]).1.unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{error}");
    }
}

#[test]
fn nothing_is_no_payload() {
    assert_eq!(read(&[b"  \n\n"]), (Vec::new(), Ok(())));
    assert_eq!(read(&[]), (Vec::new(), Ok(())));
}
