//! Markdown at a terminal, while it arrives: emphasis, code, headings, lists and quotes as styles; words
//! wrapped at its width.
//!
//! ```text
//! text ──► characters ── marks (`**`, `_`, a backtick, `#` …) ──► styles on and off
//!                    └── words ──► wrapped ──► written as soon as they are whole
//! ```
//!
//! Invariants: every word is written, in order, and no later than the word after it; marks that can neither
//! open nor close a style (`2 * 3`, `snake_case`) are written unchanged; the output does not depend on how the
//! text was cut into deltas. Inside code no character is a mark. A style that is opened and never closed lasts
//! until the end of the block. Not here: tables and links, which are written unchanged.

use super::style::{BOLD, CYAN as CODE, ITALIC, PLAIN};

/// Writes Markdown for one block of text, character by character.
///
/// ```text
/// line start ── may_be_mark ──► held in `start` ── kind known ──► inline text
/// inline     ── `*`, `_` ─────► held in `marks` ── next char ──► style, or the characters themselves
/// word       ── letters ──────► held in `word` ── space, end of line, full line ──► written
/// ```
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// Columns of the terminal; 0 to disable wrapping.
    width: usize,
    /// Columns before the text of a line: the name of its agent.
    indent: usize,
    /// `false` to write marks unchanged, and wrap only.
    is_styled: bool,
    /// Columns that the current line has used, with its indent.
    column: usize,
    /// Line breaks that are written with the text after them: the caller writes those at the end of a text.
    breaks: usize,
    /// The beginning of a line, until its kind is known.
    start: Option<String>,
    /// A word whose end has not arrived yet, with its styles, and its width.
    word: String,
    word_width: usize,
    /// Spaces before that word.
    spaces: usize,
    /// Mark characters whose meaning depends on what follows.
    marks: String,
    /// Ended by their closing marks, not by the end of a line: emphasis may span lines.
    on: Inline,
    /// Set until the end of the line.
    is_heading: bool,
    /// Set between two lines of three backticks.
    is_fence: bool,
    /// The character before the current one, which decides whether a mark opens or closes.
    last: char,
}

/// Styles that are active inside a line.
#[derive(Debug, Default)]
struct Inline {
    is_bold: bool,
    is_italic: bool,
    is_code: bool,
}

impl Markdown {
    /// Returns a formatter at the beginning of a line, after `indent` columns that the caller has written.
    pub(super) fn new(width: usize, indent: usize, is_styled: bool) -> Self {
        let start = is_styled.then(String::new);
        Self { width, indent, is_styled, column: indent, start, last: '\n', ..Self::default() }
    }

    /// Adds text, and returns the output that is ready.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            self.take(c, &mut out);
        }
        // Without marks and without a width, no text is held back.
        if self.width == 0 && self.marks.is_empty() {
            self.flush_word(&mut out);
        }
        out
    }

    /// Ends the block, or interrupts it for another one. Returns the text that was held back.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        if let Some(start) = self.start.take() {
            start.chars().for_each(|c| self.inline(c, &mut out));
        }
        self.settle(' ', &mut out);
        self.flush_word(&mut out);
        if self.on.is_bold || self.on.is_italic || self.on.is_code || self.is_heading || self.is_fence {
            out.push_str(PLAIN);
        }
        out
    }

    /// Handles one character: a line break, the beginning of a line, or inline text.
    fn take(&mut self, c: char, out: &mut String) {
        if c == '\n' {
            self.end_line(out);
        } else if let Some(start) = &mut self.start {
            start.push(c);
            if !may_be_mark(start) {
                let start = self.start.take().unwrap_or_default();
                self.begin_line(&start, out);
            }
        } else {
            self.inline(c, out);
        }
    }

    /// Begins a line whose kind is known: a heading, an item, a quote, or text.
    fn begin_line(&mut self, start: &str, out: &mut String) {
        let indent = start.len() - start.trim_start_matches(' ').len();
        let (mark, text) = start.trim_start_matches(' ').split_once(' ').unwrap_or_default();
        let is_heading = !mark.is_empty() && mark.chars().all(|c| c == '#');
        let item = match mark {
            "-" | "*" | "+" => "• ",
            ">" => "│ ",
            _ => "",
        };
        if self.is_fence || (!is_heading && item.is_empty()) {
            return start.chars().for_each(|c| self.inline(c, out));
        }
        if is_heading {
            self.is_heading = true;
            self.style(BOLD);
        } else {
            self.spaces += indent;
            item.trim_end().chars().for_each(|c| self.letter(c, out));
            self.letter(' ', out);
        }
        text.chars().for_each(|c| self.inline(c, out));
    }

    /// Ends a line. Its break is counted and written with the next text, so that a block ends without empty
    /// lines.
    fn end_line(&mut self, out: &mut String) {
        let is_fence = self.start.as_deref().is_some_and(|start| start.trim().starts_with("```"));
        if is_fence {
            self.is_fence = !self.is_fence;
            self.style(if self.is_fence { CODE } else { PLAIN });
        } else if let Some(start) = self.start.take() {
            self.begin_line(&start, out);
        }
        self.settle('\n', out);
        if std::mem::take(&mut self.is_heading) {
            self.style(PLAIN);
        }
        self.flush_word(out);
        self.spaces = 0;
        // The line of a fence is not written.
        if !is_fence {
            self.breaks += 1;
        }
        self.column = self.indent;
        self.last = '\n';
        self.start = self.is_styled.then(String::new);
    }

    /// Handles a character inside a line. `*` and `_` are held until the character after them is known.
    fn inline(&mut self, c: char, out: &mut String) {
        if self.is_fence || !self.is_styled {
            return self.letter(c, out);
        }
        match c {
            '`' => {
                self.settle(c, out);
                self.on.is_code = !self.on.is_code;
                self.restyle();
                self.last = c;
            }
            '*' | '_' if !self.on.is_code => {
                if !self.marks.is_empty() && !self.marks.starts_with(c) {
                    self.settle(c, out);
                }
                self.marks.push(c);
            }
            c => {
                self.settle(c, out);
                self.letter(c, out);
            }
        }
    }

    /// Interprets the held marks, given the character after them. Marks open a style before a character that is
    /// not white space, unless a letter precedes them, and close one after a character that is not white space.
    /// `_` between two letters is part of a name. One mark is italic, two are bold, three are both; more are
    /// text.
    fn settle(&mut self, next: char, out: &mut String) {
        if self.marks.is_empty() {
            return;
        }
        let marks = std::mem::take(&mut self.marks);
        let before = self.last;
        let opens = !next.is_whitespace() && !before.is_alphanumeric();
        let closes = !before.is_whitespace();
        let (bold, italic) = match marks.len() {
            1 => (self.on.is_bold, !self.on.is_italic),
            2 => (!self.on.is_bold, self.on.is_italic),
            3 => (!self.on.is_bold, !self.on.is_italic),
            _ => (self.on.is_bold, self.on.is_italic),
        };
        let is_inside = marks.starts_with('_') && before.is_alphanumeric() && next.is_alphanumeric();
        let begins = (bold && !self.on.is_bold) || (italic && !self.on.is_italic);
        let ends = (!bold && self.on.is_bold) || (!italic && self.on.is_italic);
        if !is_inside && ((begins && opens) || (ends && closes)) {
            (self.on.is_bold, self.on.is_italic) = (bold, italic);
            self.restyle();
        } else {
            marks.chars().for_each(|mark| self.letter(mark, out));
        }
    }

    /// Resets all styles and writes those that are active: ending one style alone is not supported by every
    /// terminal.
    fn restyle(&mut self) {
        let styles = [
            (self.on.is_bold || self.is_heading, BOLD),
            (self.on.is_italic, ITALIC),
            (self.on.is_code, CODE),
        ];
        self.word.push_str(PLAIN);
        styles.iter().filter(|(is_on, _)| *is_on).for_each(|(_, style)| self.word.push_str(style));
    }

    /// Adds an escape sequence to the word, so that it moves with the word if the line is wrapped. It has no
    /// width.
    fn style(&mut self, style: &str) {
        self.word.push_str(style);
    }

    /// Adds a character that is written. White space ends the word; a tab counts as four columns.
    fn letter(&mut self, c: char, out: &mut String) {
        self.last = c;
        if c == ' ' || c == '\t' {
            self.flush_word(out);
            self.spaces += if c == ' ' { 1 } else { 4 };
            return;
        }
        self.word.push(c);
        self.word_width += width_of(c);
        // A word that fills the line alone is not held back.
        if self.width > 0 && self.word_width + self.indent >= self.width {
            self.flush_word(out);
        }
    }

    /// Writes the word, on a new line if the current one has no room for it.
    fn flush_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let needed = self.column + self.spaces + self.word_width;
        let is_full =
            self.width > 0 && self.word_width > 0 && needed > self.width && self.column > self.indent;
        if is_full {
            (self.breaks, self.spaces, self.column) = (self.breaks + 1, 0, self.indent);
        }
        if self.breaks > 0 {
            out.extend(std::iter::repeat_n('\n', self.breaks));
            out.extend(std::iter::repeat_n(' ', self.indent));
            self.breaks = 0;
        }
        out.extend(std::iter::repeat_n(' ', self.spaces));
        out.push_str(&self.word);
        self.column += self.spaces + self.word_width;
        self.word.clear();
        (self.word_width, self.spaces) = (0, 0);
    }
}

/// Returns `true` while the beginning of a line may become a heading, an item, a quote or a fence.
fn may_be_mark(start: &str) -> bool {
    let rest = start.trim_start_matches(' ');
    rest.is_empty()
        || (rest.len() <= 6 && rest.chars().all(|c| c == '#'))
        || matches!(rest, "-" | "*" | "+" | ">")
        || rest.starts_with("```")
        || "```".starts_with(rest)
}

/// Returns the columns of a character: wide characters of East Asian scripts and emoji take two.
fn width_of(c: char) -> usize {
    let wide = matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f
        | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    if wide {
        2
    } else {
        usize::from(!matches!(u32::from(c), 0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: usize) -> String {
        let mut markdown = Markdown::new(width, 0, true);
        let mut out = markdown.push(text);
        out.push_str(&markdown.finish());
        out
    }

    #[test]
    fn marks_become_styles_however_the_text_is_cut() {
        let text = "# Title\n\nSome **bold** and *italic* `co*de*` text, snake_case_name and 2 * 3.\n- item\n> quote\n```\nlet **x** = 1;\n```\nend";
        let whole = shown(text, 0);
        for cut in 1..text.len() {
            let Some((head, tail)) = text.split_at_checked(cut) else { continue };
            let mut markdown = Markdown::new(0, 0, true);
            let out = format!("{}{}{}", markdown.push(head), markdown.push(tail), markdown.finish());
            assert_eq!(out, whole, "cut at {cut}");
        }
        for part in [
            "\u{1b}[1mTitle\u{1b}[0m",
            "\u{1b}[0m\u{1b}[1mbold\u{1b}[0m",
            "\u{1b}[3mitalic\u{1b}[0m",
            "\u{1b}[36mco*de*\u{1b}[0m",
            "snake_case_name",
            "2 * 3",
            "• item",
            "let **x** = 1;",
        ] {
            assert!(whole.contains(part), "{part:?} in {whole:?}");
        }
    }

    #[test]
    fn words_are_wrapped_at_the_width_and_none_is_lost() {
        let text = "one two three four five six seven";
        let out = shown(text, 12);
        assert!(out.lines().all(|line| line.chars().count() <= 12), "{out}");
        assert_eq!(out.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn without_styles_every_character_comes_out() {
        let text = "# Title\n\n**bold**  and `code`\n- item\n";
        let mut plain = Markdown::new(0, 0, false);
        assert_eq!(plain.push(text) + &plain.finish(), text.trim_end());
        let mut wrapped = Markdown::new(10, 4, false);
        assert_eq!(wrapped.push("one two three") + &wrapped.finish(), "one\n    two\n    three");
    }

    #[test]
    fn a_word_is_not_held_longer_than_it_takes() {
        let mut markdown = Markdown::new(80, 0, true);
        assert_eq!(markdown.push("one tw"), "one");
        assert_eq!(markdown.push("o "), " two");
    }
}
