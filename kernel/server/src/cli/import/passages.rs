//! Cuts a CommonMark text into passages at its headings. Every byte of the text is in
//! exactly one passage.
//!
//! Not here: files, and what becomes of a passage.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A stretch of the text under one heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    /// Its bytes in the text.
    pub(super) range: Range<usize>,
    /// The heading that it stands under and those above that, the uppermost first.
    pub(super) headings: Vec<String>,
    /// Which part it is and of how many, if it was too long for one.
    pub(super) part: Option<(usize, usize)>,
}

/// The borders that the parser sees.
struct Outline {
    headings: Vec<Heading>,
    /// Where each block that is in no other begins.
    blocks: Vec<usize>,
}

struct Heading {
    start: usize,
    end: usize,
    level: HeadingLevel,
    title: String,
}

/// Front matter in YAML: what it says, and where the text behind it begins.
pub(super) fn front_matter(text: &str) -> Option<(String, usize)> {
    let options = Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut events = Parser::new_ext(text, options).into_offset_iter();
    let (Event::Start(Tag::MetadataBlock(_)), range) = events.next()? else {
        return None;
    };
    if range.start != 0 {
        return None;
    }
    let mut yaml = String::new();
    for (event, _) in events {
        match event {
            Event::Text(text) => yaml.push_str(&text),
            _ => break,
        }
    }
    Some((yaml, range.end))
}

/// The passages of a text, in order, none longer than `max` bytes (at least 4). They
/// begin at headings that stand in no quotation or list; a heading with nothing but a
/// deeper heading under it is joined to that one.
pub(super) fn split(text: &str, max: usize) -> Vec<Passage> {
    let outline = outline(text);
    let mut passages = Vec::new();
    for (range, headings) in sections(text, &outline.headings) {
        let parts = parts(text, range, &outline.blocks, max);
        let of = parts.len();
        passages.extend(parts.into_iter().enumerate().map(|(at, range)| Passage {
            range,
            headings: headings.clone(),
            part: (of > 1).then_some((at + 1, of)),
        }));
    }
    passages
}

fn outline(text: &str) -> Outline {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_TASKLISTS;
    let line_start = |at: usize| text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let (mut headings, mut blocks) = (Vec::<Heading>::new(), Vec::new());
    let mut depth = 0_usize;
    let mut in_heading = false;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        let outermost = depth == 0;
        match &event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        if outermost {
            blocks.push(line_start(range.start));
        }
        match event {
            Event::Start(Tag::Heading { level, .. }) if outermost => {
                in_heading = true;
                headings.push(Heading {
                    start: line_start(range.start),
                    end: range.end,
                    level,
                    title: String::new(),
                });
            }
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Text(words) | Event::Code(words) if in_heading => {
                if let Some(heading) = headings.last_mut() {
                    heading.title.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak if in_heading => {
                if let Some(heading) = headings.last_mut() {
                    heading.title.push(' ');
                }
            }
            _ => {}
        }
    }
    Outline { headings, blocks }
}

/// The text from each heading to the next, with the path of headings down to it.
fn sections(text: &str, headings: &[Heading]) -> Vec<(Range<usize>, Vec<String>)> {
    let mut sections = Vec::new();
    // What no heading stands over, or a heading alone, waits to be joined.
    let mut start = 0;
    let mut path: Vec<&Heading> = Vec::new();
    let first = headings.first().map_or(text.len(), |heading| heading.start);
    if !text[..first].trim().is_empty() {
        sections.push((0..first, Vec::new()));
        start = first;
    }
    for (at, heading) in headings.iter().enumerate() {
        path.retain(|above| above.level < heading.level);
        path.push(heading);
        let next = headings.get(at + 1);
        let end = next.map_or(text.len(), |next| next.start);
        let alone = text[heading.end.min(end)..end].trim().is_empty();
        if alone && next.is_some_and(|next| next.level > heading.level) {
            continue;
        }
        let titles = path.iter().map(|heading| heading.title.trim().to_owned());
        sections.push((start..end, titles.collect()));
        start = end;
    }
    if start < text.len() {
        // Only white space is left: what is blank as a whole.
        sections.push((start..text.len(), Vec::new()));
    }
    sections
}

/// Cuts a range into pieces of at most `max` bytes: at the borders of blocks, else of
/// lines, else of words, else of characters.
fn parts(text: &str, range: Range<usize>, blocks: &[usize], max: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    while range.end - start > max {
        let latest = text.floor_char_boundary(start + max);
        let block = blocks[..blocks.partition_point(|block| *block <= latest)].last();
        let window = &text[start..latest];
        let cut = block
            .copied()
            .filter(|block| *block > start)
            .or_else(|| Some(start + window.rfind('\n')? + 1))
            .or_else(|| Some(start + window.rfind(' ')? + 1))
            .unwrap_or(latest);
        parts.push(start..cut);
        start = cut;
    }
    parts.push(start..range.end);
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, max: usize) -> Vec<(String, String)> {
        let passages = split(text, max);
        let shown = |passage: &Passage| {
            let content = text[passage.range.clone()].trim().to_owned();
            (passage.headings.join("/"), content)
        };
        passages.iter().map(shown).collect()
    }

    fn owned<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()
    }

    #[test]
    fn passages_begin_at_headings_and_know_those_above() {
        let text = "intro\n\n# A\n\none\n\n## B `c`\ntwo\n\nD\n=\nthree\n";
        let expected = owned([
            ("", "intro"),
            ("A", "# A\n\none"),
            ("A/B c", "## B `c`\ntwo"),
            ("D", "D\n=\nthree"),
        ]);
        assert_eq!(cut(text, 1000), expected);
    }

    #[test]
    fn a_heading_alone_goes_with_the_deeper_one_below_it() {
        let expected = owned([("A/B", "# A\n## B\nx"), ("C", "# C"), ("D", "# D\ny")]);
        assert_eq!(cut("# A\n## B\nx\n# C\n# D\ny", 1000), expected);
    }

    #[test]
    fn what_only_looks_like_a_heading_is_none() {
        let text = "```sh\n# no\n```\n\n> # no\n\n- # no\n\n\\# no\n#no\n";
        assert_eq!(split(text, 1000).len(), 1);
        assert!(split(text, 1000)[0].headings.is_empty());
    }

    #[test]
    fn a_long_passage_is_cut_between_paragraphs_then_lines_then_words() {
        let text = "# A\n\naaaa aaaa\n\nbbbb bbbb\n\ncccc cccc cccc cccc cccc cccc\n";
        let parts: Vec<_> = cut(text, 20).into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            parts,
            [
                "# A\n\naaaa aaaa",
                "bbbb bbbb",
                "cccc cccc cccc cccc",
                "cccc cccc"
            ]
        );
        assert_eq!(split(text, 20)[1].part, Some((2, 4)));
    }

    #[test]
    fn front_matter_is_read_only_at_the_beginning() {
        let read = front_matter("---\ntitle: A\n---\nx");
        let (yaml, end) = read.expect("front matter");
        assert_eq!(yaml, "title: A\n");
        assert_eq!("---\ntitle: A\n---\nx"[end..].trim(), "x");
        assert_eq!(front_matter("x\n\n---\ntitle: A\n---\n"), None);
        assert_eq!(front_matter("---\n\nx\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_lost_doubled_or_reordered(
            lines in prop::collection::vec(
                prop_oneof![
                    Just("# A"), Just("## B é"), Just("---"), Just("==="), Just("```"), Just(""),
                    Just("> # q"), Just("- item"), Just("  # C"), Just("text ü € 🚀 text text"),
                    Just("\t# D"), Just("[a]: b"), Just("<div>"), Just("| a | b |"), Just("\r"),
                ],
                0..40,
            ),
            max in 4_usize..64,
        ) {
            let text = lines.join("\n");
            let passages = split(&text, max);
            let mut at = 0;
            for passage in &passages {
                prop_assert_eq!(passage.range.start, at);
                prop_assert!(passage.range.len() <= max);
                prop_assert!(text.is_char_boundary(passage.range.end));
                at = passage.range.end;
            }
            prop_assert_eq!(at, text.len());
        }

        #[test]
        fn any_text_at_all_is_tiled(text in "\\PC{0,200}", max in 4_usize..50) {
            let passages = split(&text, max);
            let whole: String = passages.iter().map(|passage| &text[passage.range.clone()]).collect();
            prop_assert_eq!(whole, text);
        }
    }
}
