//! The format cases of the WHATWG rules, limits, and the round trip as a property.

use bytes::Bytes;
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{
    DecodeError, DecodeLimits, Decoder, Event, EventFields, encode_comment, encode_event, encode_id,
    encode_retry, is_event_stream,
};

/// Reads `chunks` to the end.
fn decode_chunks(chunks: &[&[u8]], limits: DecodeLimits) -> (Vec<Result<Event, DecodeError>>, Decoder) {
    let mut decoder = Decoder::new(limits);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.handle_chunk(Bytes::copy_from_slice(chunk));
        events.extend(std::iter::from_fn(|| decoder.poll_event()));
    }
    decoder.handle_eof();
    events.extend(std::iter::from_fn(|| decoder.poll_event()));
    assert_eq!(decoder.poll_event(), None, "a decoder at its end stays there");
    (events, decoder)
}

/// Reads `stream` whole, at every cut and byte by byte: all must agree.
#[track_caller]
fn decode(stream: &[u8]) -> (Vec<Event>, Decoder) {
    let (whole, decoder) = decode_chunks(&[stream], DecodeLimits::default());
    for at in 0..=stream.len() {
        let (head, tail) = stream.split_at(at);
        let (cut, at_cut) = decode_chunks(&[head, tail], DecodeLimits::default());
        assert_eq!(cut, whole, "cut at {at}");
        assert_eq!(at_cut.last_event_id(), decoder.last_event_id(), "cut at {at}");
        assert_eq!(at_cut.retry(), decoder.retry(), "cut at {at}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(decode_chunks(&bytes, DecodeLimits::default()).0, whole, "byte by byte");
    (whole.into_iter().map(Result::unwrap).collect(), decoder)
}

/// The data of all events that were ended.
#[track_caller]
fn data(stream: &str) -> Vec<String> {
    decode(stream.as_bytes()).0.iter().filter(|e| e.terminated).map(|e| e.data.to_string()).collect()
}

#[test]
fn a_byte_order_mark_is_skipped_once_at_the_start() {
    assert_eq!(data("\u{FEFF}data:1\n\n\u{FEFF}data:2\n\ndata:3\n\n"), ["1", "3"]);
    // Two marks: the second belongs to the name of a field that nobody knows.
    assert_eq!(data("\u{FEFF}\u{FEFF}data:1\n\ndata:2\n\n"), ["2"]);
}

#[test]
fn a_mark_alone_or_before_an_empty_line_is_nothing() {
    assert_eq!(data("\u{FEFF}\n\ndata:1\n\n"), ["1"]);
    assert_eq!(decode("\u{FEFF}".as_bytes()).0, []);
}

#[test]
fn every_line_end_works_and_they_mix() {
    for end in ["\n", "\r", "\r\n"] {
        assert_eq!(data(&format!("data:a{end}data:b{end}{end}data:c{end}{end}")), ["a\nb", "c"], "{end:?}");
    }
    assert_eq!(data("data:1\r\n\rdata:2\n\r\ndata:3\r\n\ndata:4\r\r"), ["1", "2", "3", "4"]);
}

#[test]
fn a_line_feed_after_a_carriage_return_belongs_to_it() {
    assert_eq!(data("data:1\r\ndata:2\r\n\r\n"), ["1\n2"]);
    assert_eq!(data("data:1\n\n\r\ndata:2\n\n"), ["1", "2"]);
}

#[test]
fn comments_are_skipped_wherever_they_stand() {
    let long = "x".repeat(3000);
    assert_eq!(
        data(&format!("data:1\r:\0\n:\r\ndata:2\n:{long}\rdata:3\n:data:fail\r\n\ndata:4\n\n")),
        ["1\n2\n3", "4"]
    );
    assert_eq!(data(": keep-alive\n\n:\n\n"), [""; 0]);
}

#[test]
fn a_field_without_a_colon_has_an_empty_value() {
    assert_eq!(data("data\n\ndata\ndata\n\ndata:test\n\n"), ["", "\n", "test"]);
    let (events, _) = decode(b"event:x\nevent\ndata:1\n\n");
    assert_eq!(events[0].event, None);
}

#[test]
fn an_event_with_empty_data_is_an_event() {
    assert_eq!(data("data:\n\ndata: \n\ndata:\ndata:\n\n"), ["", "", "\n"]);
}

#[test]
fn one_space_after_the_colon_is_taken_away_and_nothing_else() {
    assert_eq!(data("data:\ttest\rdata: \ndata:test\n\n"), ["\ttest\n\ntest"]);
    assert_eq!(data("data:  two \n\n"), [" two "]);
}

#[test]
fn only_the_first_colon_counts() {
    assert_eq!(data("data:a:b: c\n\n"), ["a:b: c"]);
}

#[test]
fn names_of_fields_are_exact() {
    let stream = "DATA:x\nDaTa:x\ndata :x\n data:x\ndatas:x\ndata:ok\n\n";
    assert_eq!(data(stream), ["ok"]);
    assert_eq!(decode(stream.as_bytes()).1.ignored_fields(), 5);
}

#[test]
fn unknown_fields_do_not_disturb_their_event() {
    assert_eq!(
        data("data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n"),
        ["test\n\ntest"]
    );
}

#[test]
fn data_before_the_final_empty_line_comes_with_a_flag() {
    let (events, _) = decode(b"data:one\n\nretry:1000\ndata:two\n");
    assert_eq!(
        events.iter().map(|e| (&*e.data, e.terminated)).collect::<Vec<_>>(),
        [("one", true), ("two", false)]
    );
}

#[test]
fn a_last_line_without_its_end_counts() {
    let (events, _) = decode(b"id:7\ndata:{\"cut\":");
    assert_eq!((&*events[0].data, events[0].terminated), ("{\"cut\":", false));
    assert_eq!(events[0].id.as_deref(), Some("7"));
}

#[test]
fn the_id_of_a_cut_event_is_not_the_last_event_id() {
    let (_, decoder) = decode(b"id:1\ndata:a\n\nid:2\ndata:b\n");
    assert_eq!(&**decoder.last_event_id(), "1");
}

#[test]
fn an_event_without_data_is_none_but_its_id_counts() {
    let (events, decoder) = decode(b"id: run.0\nretry: 1000\n\n");
    assert_eq!(events, []);
    assert_eq!(&**decoder.last_event_id(), "run.0");
    assert_eq!(decoder.retry(), Some(1000));
}

#[test]
fn the_name_of_an_event_without_data_is_forgotten() {
    let (events, _) = decode(b"event:error\n\ndata:1\n\n");
    assert_eq!(events[0].event, None);
}

#[test]
fn the_last_name_of_an_event_wins_and_an_empty_one_is_none() {
    let (events, _) = decode(b"event:a\nevent: error\ndata:1\n\nevent:\ndata:2\n\ndata:3\n\n");
    let names: Vec<_> = events.iter().map(|e| e.event.as_deref()).collect();
    assert_eq!(names, [Some("error"), None, None]);
}

#[test]
fn ids_stay_until_they_are_changed_or_taken_back() {
    let mut decoder = Decoder::default();
    let mut seen = Vec::new();
    for chunk in ["id:1\ndata:a\n\n", "data:b\n\n", "id\ndata:c\n\n", "id: x \ndata:d\n\n"] {
        decoder.handle_chunk(Bytes::from(chunk));
        assert!(decoder.poll_event().unwrap().is_ok());
        seen.push(decoder.last_event_id().to_string());
    }
    assert_eq!(seen, ["1", "1", "", "x "]);
}

#[test]
fn an_id_with_nul_is_ignored() {
    let (events, decoder) = decode(b"id:good\nid:b\0d\ndata:1\n\n");
    assert_eq!(events[0].id.as_deref(), Some("good"));
    assert_eq!(decoder.ignored_fields(), 1);
}

#[test]
fn nul_in_data_is_data() {
    assert_eq!(data("data:a\0b\n\n"), ["a\0b"]);
}

#[test]
fn retry_takes_digits_only() {
    for (value, expected) in [
        ("3000", Some(3000)),
        ("03000", Some(3000)),
        ("1000x", None),
        ("+1", None),
        ("-1", None),
        ("", None),
        ("1.5", None),
        ("99999999999999999999999", None),
        ("\u{663}", None),
    ] {
        assert_eq!(decode(format!("retry:{value}\n\n").as_bytes()).1.retry(), expected, "{value:?}");
    }
    assert_eq!(decode(b"retry:1000\nretry:bogus\n\n").1.retry(), Some(1000));
}

#[test]
fn text_beyond_ascii_survives_any_cut() {
    assert_eq!(data("data:ok\u{2026}\u{1F980}\u{E9}\n\n"), ["ok\u{2026}\u{1F980}\u{E9}"]);
}

#[test]
fn invalid_utf8_is_an_error_with_its_place() {
    for (stream, position) in
        [(&b"data:1\n\ndata:a\xFFb\n\n"[..], 14), (b"\xEF\xBB\xBFid:\xC3\n\n", 6), (b"event: ab\xE2\x82", 9)]
    {
        for size in 1..=stream.len() {
            let chunks: Vec<&[u8]> = stream.chunks(size).collect();
            let (events, _) = decode_chunks(&chunks, DecodeLimits::default());
            assert_eq!(events.last(), Some(&Err(DecodeError::InvalidUtf8 { position })), "{stream:?}");
        }
    }
}

#[test]
fn invalid_utf8_in_what_nobody_reads_is_no_error() {
    let (events, _) = decode(b": \xFF\nx\xFF: y\ndata:1\n\n");
    assert_eq!(&*events[0].data, "1");
}

#[test]
fn pretty_printed_payloads_are_put_together() {
    assert_eq!(data("data: {\r\ndata:   \"a\": 1\r\ndata: }\r\n\r\n"), ["{\n  \"a\": 1\n}"]);
}

#[test]
fn nothing_at_all_is_no_event() {
    for stream in ["", "\n", "\r\n\r\n\n\r", ":", "event:x\n\n", "id:1\n"] {
        assert_eq!(decode(stream.as_bytes()).0, [], "{stream:?}");
    }
}

#[test]
fn a_line_too_long_is_an_error_before_it_is_held() {
    let limits = DecodeLimits { line: 100, event: 1000 };
    let mut decoder = Decoder::new(limits);
    decoder.handle_chunk(Bytes::from_static(b"data:ok\n\n"));
    assert!(decoder.poll_event().unwrap().is_ok());
    let mut polled = None;
    for _ in 0..11 {
        decoder.handle_chunk(Bytes::from_static(b"0123456789"));
        polled = decoder.poll_event();
    }
    assert_eq!(polled, Some(Err(DecodeError::LineTooLong { position: 9, limit: 100 })));
    decoder.handle_chunk(Bytes::from_static(b"\n\ndata:2\n\n"));
    assert_eq!(decoder.poll_event(), None, "nothing comes after an error");
}

#[test]
fn a_line_too_long_in_one_chunk_is_an_error_too() {
    let limits = DecodeLimits { line: 8, event: 100 };
    let (events, _) = decode_chunks(&[b"data:1234\n\n"], limits);
    assert_eq!(events, [Err(DecodeError::LineTooLong { position: 0, limit: 8 })]);
    let (events, _) = decode_chunks(&[b"data:123\n\n"], limits);
    assert!(events[0].is_ok());
}

#[test]
fn many_short_lines_do_not_get_around_the_limit() {
    let stream = "data:0123456789\n".repeat(20);
    let (events, _) = decode_chunks(&[stream.as_bytes()], DecodeLimits { line: 100, event: 100 });
    assert_eq!(events, [Err(DecodeError::EventTooLong { position: 144, limit: 100 })]);
}

#[test]
fn a_payload_on_one_line_is_a_slice_of_what_was_read() {
    let chunk = Bytes::from_static(b"data: payload\n\n");
    let range = chunk.as_ptr_range();
    let mut decoder = Decoder::default();
    decoder.handle_chunk(chunk);
    let event = decoder.poll_event().unwrap().unwrap();
    assert!(range.contains(&event.data.as_ptr()));
}

#[test]
fn chunks_pushed_without_polling_are_not_lost() {
    let mut decoder = Decoder::default();
    for chunk in ["data:1\n\nda", "ta:2\n", "\n"] {
        decoder.handle_chunk(Bytes::from(chunk));
    }
    let all: Vec<_> = std::iter::from_fn(|| decoder.poll_event()).map(|e| e.unwrap().data).collect();
    assert_eq!(all, ["1", "2"]);
}

#[test]
fn the_media_type_is_recognised_with_parameters_and_in_any_case() {
    for good in [
        "text/event-stream",
        "text/event-stream; charset=utf-8",
        "TEXT/Event-Stream ;x=y",
        " text/event-stream",
    ] {
        assert!(is_event_stream(good), "{good}");
    }
    for bad in [
        "",
        "text/event-stream2",
        "text/html",
        "application/json",
        "x/text/event-stream",
        "text/event-stream,x",
    ] {
        assert!(!is_event_stream(bad), "{bad}");
    }
}

#[test]
fn frames_look_as_expected() {
    let mut out = Vec::new();
    encode_id("r.0", &mut out).unwrap();
    encode_retry(1000, &mut out);
    out.push(b'\n');
    let fields = EventFields { event: Some("e"), id: Some("r.1.1"), data: Some(" a\r\nb\rc\n") };
    encode_event(&fields, &mut out).unwrap();
    encode_comment("keep-alive", &mut out);
    encode_event(&EventFields::default(), &mut out).unwrap();
    let expected = "id: r.0\nretry: 1000\n\nevent: e\nid: r.1.1\ndata:  a\ndata: b\ndata: c\ndata: \n\n: keep-alive\n\n\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn fields_that_would_forge_others_are_refused_and_leave_nothing() {
    let mut out = Vec::new();
    for bad in ["a\nb", "a\rdata: x", "\0"] {
        let id = EventFields { id: Some(bad), data: Some("x"), ..EventFields::default() };
        assert_eq!(encode_event(&id, &mut out).unwrap_err().field, "id");
        let name = EventFields { event: Some(bad), id: Some("fine"), data: Some("x") };
        assert_eq!(encode_event(&name, &mut out).unwrap_err().field, "event");
    }
    assert_eq!(out, b"");
}

#[test]
fn a_comment_cannot_leave_its_line() {
    let mut out = Vec::new();
    encode_comment("x\r\ndata: forged\n\n", &mut out);
    assert_eq!(decode(&out).0, []);
}

/// What the format can carry of `text`.
fn normalised(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn arb_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[ab:\\r\\n \\x00\u{FEFF}\u{1F980}]{0,24}"]
}

fn arb_name() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[^\\r\\n\\x00]{1,12}")
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_however_it_is_split(
        events in prop::collection::vec((arb_name(), arb_name(), arb_text()), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut stream = Vec::new();
        for (event, id, data) in &events {
            let fields = EventFields { event: event.as_deref(), id: id.as_deref(), data: Some(data) };
            encode_event(&fields, &mut stream).unwrap();
            encode_comment(data, &mut stream);
        }
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let (read, _) = decode_chunks(&chunks, DecodeLimits::default());
        prop_assert_eq!(read.len(), events.len());
        for (read, (event, id, data)) in read.into_iter().zip(events) {
            let read = read.unwrap();
            prop_assert!(read.terminated);
            prop_assert_eq!(&*read.data, normalised(&data));
            prop_assert_eq!(read.event.map(String::from), event);
            prop_assert_eq!(read.id.map(String::from), id);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic_and_alike_however_split(
        stream in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "(data|id|event|retry|:|: |\\r|\\n|\\r\\n|1|\u{FEFF}|x){0,40}".prop_map(String::into_bytes),
        ],
        size in 1_usize..20,
    ) {
        let limits = DecodeLimits { line: 60, event: 90 };
        let (whole, _) = decode_chunks(&[&stream], limits);
        let chunks: Vec<&[u8]> = stream.chunks(size).collect();
        let (split, _) = decode_chunks(&chunks, limits);
        prop_assert_eq!(split, whole);
    }
}
