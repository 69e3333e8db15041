use super::*;

fn base() -> Url {
    Url::parse("http://a.example/wiki/page").unwrap()
}

fn readable(html: &str) -> Readable {
    convert(html, &base(), Extent::Readable)
}

fn markdown(body: &str) -> String {
    convert(&format!("<html><body>{body}</body></html>"), &base(), Extent::Full).markdown
}

#[test]
fn each_element_has_its_markdown() {
    for (html, expected) in [
        ("<p>one\n  two</p><p>three</p>", "one two\n\nthree"),
        ("<h2>Head <em>line</em></h2><p>text", "## Head *line*\n\ntext"),
        ("<p>a <b>bold </b>word", "a **bold** word"),
        ("<p>a<b> </b>b <i></i>c", "a b c"),
        ("<p>see <a href='../x?y=1'>the page</a>.", "see [the page](http://a.example/x?y=1)."),
        ("<a href='#here'>note</a> <a href='javascript:x()'>run</a> <a>none</a>", "note run none"),
        ("<a href='/A_(b)'>A</a>", "[A](http://a.example/A_%28b%29)"),
        ("<a href='/x'><div>one</div><div>two</div></a>", "[one two](http://a.example/x)"),
        ("<img src=/i.png alt='a map'><img src=/j.png>", "![a map](http://a.example/i.png)"),
        ("<ul><li>one<li>two<ul><li>deep</ul></ul>", "- one\n- two\n  - deep"),
        ("<ol start=3><li><p>one</p><p>more</p></li><li>two</ol>", "3. one\n\n   more\n\n4. two"),
        ("<blockquote><p>one</p><p>two</p></blockquote>", "> one\n>\n> two"),
        (
            "<pre><code class='language-rust'>fn a() {\n    1\n}</code></pre>",
            "```rust\nfn a() {\n    1\n}\n```",
        ),
        ("<p>run <code>a|b</code>", "run `a|b`"),
        ("one<br>two<hr>three", "one\ntwo\n\n---\n\nthree"),
        ("10<sup>6</sup> m<sup>-1</sup> H<sub>2</sub>O<sup>[3]</sup>", "10^6 m^-1 H2O[3]"),
        ("<dl><dt>Term</dt><dd>Meaning</dd></dl>", "Term\n: Meaning"),
        ("a&nbsp;b &amp; &lt;c&gt;", "a b & <c>"),
        ("<script>x</script><style>y</style><template>z</template><p>text", "text"),
        ("<p hidden>secret</p><p style='color:red; display: none'>away</p><p>seen", "seen"),
        ("<iframe src='/map' title='Map'></iframe>", "[Map](http://a.example/map)"),
        ("<math alttext='x^{2}'><mi>x</mi></math>", "$x^{2}$"),
        (
            "<a href=/u>rolf</a><span><time>2021-03-02</time><span>1</span></span>",
            "[rolf](http://a.example/u) 2021-03-02 1",
        ),
        (
            "<span>H</span><span>i</span> <span>4</span>2 <span>x </span><span>y</span><span>, z</span>",
            "Hi 42 x y, z",
        ),
        (
            "<code><span>tidal.</span><span>Engine</span></code> <b>un</b><span>done</span>",
            "`tidal.Engine` **un**done",
        ),
        ("<input type=checkbox checked> done <input value=typed>", "[x] done typed"),
    ] {
        assert_eq!(markdown(html), expected, "{html}");
    }
}

#[test]
fn tables_keep_rows_spans_and_links() {
    let html = "<table><caption>Towers</caption><tr><th>Name<th>Height<tr><td rowspan=2><a href='/v'>Varn</a>\
                <td>31 m<tr><td>28 m<br>(old)<tr><td colspan=2>a | b</table>";
    assert_eq!(
        markdown(html),
        "Towers\n\n| Name | Height |\n| --- | --- |\n| [Varn](http://a.example/v) | 31 m |\n\
         | [Varn](http://a.example/v) | 28 m<br>(old) |\n| a \\| b |  |"
    );
    let no_heading = "<table><tr><td>1<td>2<tr><td>3<td>4</table>";
    assert_eq!(markdown(no_heading), "|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |");
}

#[test]
fn a_table_for_the_layout_is_read_cell_by_cell() {
    let html = "<table><tr><td>menu<td><h1>Title</h1><table><tr><th>a<th>b<tr><td>1<td>2</table></table>";
    assert_eq!(markdown(html), "menu\n\n# Title\n\n| a | b |\n| --- | --- |\n| 1 | 2 |");
}

#[test]
fn spans_that_would_fill_the_memory_are_cut() {
    let html = "<table><tr><td colspan=99999999 rowspan=99999999>x<td>y<tr><td>z</table>";
    assert!(markdown(html).contains('z'));
    let many = format!("<table>{}</table>", "<tr><td rowspan=5000 colspan=900>x<td>y".repeat(3_000));
    assert!(markdown(&many).len() < 40_000_000);
}

#[test]
fn what_surrounds_the_content_is_left_out() {
    let html = format!(
        "<html lang=en><head><title>Towers</title><meta property='article:published_time' content='2024-03-01'></head>\
         <body><nav><a href=/>Home</a><a href=/b>Other</a></nav><div class='cookie-banner'>We use cookies</div>\
         <main><p>{}</p><table><tr><th>a<th>b<tr><td>1<td>2</table></main>\
         <aside class=related><a href=/c>Also read</a></aside><footer>Imprint</footer></body></html>",
        "The tower of Varn is 31 metres tall. ".repeat(20)
    );
    let page = readable(&html);
    for absent in ["Home", "cookies", "Also read", "Imprint"] {
        assert!(!page.markdown.contains(absent), "{absent}: {}", page.markdown);
    }
    assert!(page.markdown.starts_with("# Towers\n\nThe tower"), "{}", page.markdown);
    assert!(page.markdown.contains("| 1 | 2 |"));
    assert_eq!(page.title.as_deref(), Some("Towers"));
    assert_eq!((page.language.as_deref(), page.date.as_deref()), (Some("en"), Some("2024-03-01")));
    assert_eq!(page.shown, Shown::MainContent);
    let full = convert(&html, &base(), Extent::Full).markdown;
    for present in ["Home", "cookies", "Also read", "Imprint"] {
        assert!(full.contains(present), "{present}");
    }
}

#[test]
fn an_aside_with_facts_and_a_small_main_are_not_lost() {
    let fact = "Founded in 1877 by Ana Bolt; the lamp stood 44 metres above the sea. ".repeat(8);
    let html = format!("<body><main><p>Welcome.</p></main><div>{fact}</div><aside>{fact}</aside></body>");
    let page = readable(&html);
    assert_eq!(page.markdown.matches("Ana Bolt").count(), 16);
}

#[test]
fn a_list_of_links_alone_is_shown_whole() {
    let links: String = (0..40).map(|n| format!("<li><a href=/{n}>Report number {n}</a>")).collect();
    let page = readable(&format!("<body><div class=menu><ul>{links}</ul></div></body>"));
    assert!(page.markdown.contains("[Report number 39](http://a.example/39)"), "{}", page.markdown);
    assert_eq!(page.links.len(), 40);
}

#[test]
fn a_shell_without_text_shows_its_data() {
    let html = "<html><head><title>App</title></head><body><div id=root></div><noscript>Enable it.</noscript>\
                <script id=__NEXT_DATA__ type='application/json'>{\"props\":{\"tower\":{\"name\":\"Varn\",\"height\":31,\
                \"tags\":[\"old\",\"red\"]}}}</script><script>var x = 'code';</script></body></html>";
    let page = readable(html).markdown;
    for part in
        ["props.tower.name: Varn", "props.tower.height: 31", "props.tower.tags: old, red", "Enable it."]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("code"));
}

#[test]
fn broken_pages_are_read_as_browsers_do() {
    assert_eq!(
        markdown("<p>one<div>two</p>three<b>four<p>five</b>six"),
        "one\n\ntwo\n\nthree**four**\n\n**five**six"
    );
    assert_eq!(
        markdown("<table>outside<tr><td>a<td>b</table>"),
        "outside\n\n|  |  |\n| --- | --- |\n| a | b |"
    );
    assert_eq!(readable("just words").markdown, "just words");
    assert_eq!(readable("").markdown, "");
    assert_eq!(readable("<html").markdown, "");
}

#[test]
fn depth_and_size_end_in_bounded_time() {
    let started = std::time::Instant::now();
    for html in [
        "<div>".repeat(200_000),
        format!("{}deep text", "<b><i>".repeat(100_000)),
        "<table><tr><td>".repeat(50_000),
        "<a href=/x>".repeat(50_000),
        "<".repeat(1_000_000),
        "&".repeat(1_000_000),
        format!("<p {}>text", "a=b ".repeat(200_000)),
        "<svg><math><mi>".repeat(30_000),
        "<select><option>".repeat(100_000),
        format!("<!--{}", "x".repeat(1_000_000)),
    ] {
        let page = readable(&html);
        assert!(page.markdown.len() <= 4 * html.len() + 1_000);
    }
    // Not a matter of speed: each of them took minutes, or the stack, with an unguarded converter.
    assert!(started.elapsed().as_secs() < 120);
    let deep = readable(&format!("{}deep <script>code</script>text &amp; more", "<div>".repeat(200_000)));
    assert_eq!(deep.shown, Shown::TextOnly);
    assert!(
        deep.markdown.starts_with("[this page is too deep")
            && deep.markdown.ends_with("]\n\ndeep text & more"),
        "{deep:?}"
    );
}

#[test]
fn the_heading_above_the_main_part_and_the_comments_below_belong_to_it() {
    let filler = "The crossing saves an hour, and costs more than was thought. ".repeat(20);
    let page = readable(&format!(
        "<title>The bridge opens</title><div class=logo>The Courier</div><div class=teaser>Other stories today</div>\
         <header><h1>The bridge opens</h1><p class=byline>By Mara Lind, 4 May 2023</p></header>\
         <p class=date>Updated at noon</p><article><p>{filler}</p></article>\
         <div id=comments><p>tollhater: too dear</p></div><div><p>Elsewhere on this site</p></div>"
    ));
    assert_eq!(page.shown, Shown::MainContent);
    assert!(
        page.markdown.starts_with("# The bridge opens\n\nBy Mara Lind, 4 May 2023\n\nUpdated at noon"),
        "{}",
        page.markdown
    );
    assert!(page.markdown.ends_with("tollhater: too dear"), "{}", page.markdown);
    for beside in ["The Courier", "Other stories", "Elsewhere"] {
        assert!(!page.markdown.contains(beside), "{beside}: {}", page.markdown);
    }
    // A heading of its own is enough: the one above is the name of the site.
    let own = readable(&format!(
        "<title>The bridge opens</title><h1>The Courier</h1><p>Since 1880</p><main><h1>The bridge opens</h1><p>{filler}</p></main>"
    ));
    assert!(
        own.markdown.starts_with("# The bridge opens") && !own.markdown.contains("1880"),
        "{}",
        own.markdown
    );
}

#[test]
fn data_that_a_script_gives_a_name_is_shown_when_there_is_nothing_else() {
    let page = readable(
        "<div id=root></div><script>window.__CONFIG__ = {\"api\":\"/v2\"};\nwindow.__STATE__={\"stops\":[{\"name\":\"Orla <Bridge>\",\
         \"departs\":\"06:31\"}]};start()</script><script>window.onload = function () { return 'code' }</script>",
    );
    for line in ["api: /v2", "stops.0.name: Orla <Bridge>", "stops.0.departs: 06:31"] {
        assert!(page.markdown.contains(line), "{}", page.markdown);
    }
    assert!(!page.markdown.contains("code"), "{}", page.markdown);
}

#[test]
fn a_title_is_added_when_the_page_does_not_say_it() {
    for (title, body, expected) in [
        ("Light - The Wiki", "<h1>Light</h1><p>text", "# Light - The Wiki\n\n# Light\n\ntext"),
        ("The Light", "<h1><a href=/x>The Light</a></h1>", "# [The Light](http://a.example/x)"),
        ("Lights", "<h1>Other</h1><p>text", "# Lights\n\n# Other\n\ntext"),
        ("Lights", "<p>text", "# Lights\n\ntext"),
        ("Lights", "<p>Lights of Varn", "Lights of Varn"),
    ] {
        let page = convert(&format!("<title>{title}</title>{body}"), &base(), Extent::Full);
        assert_eq!(page.markdown, expected, "{title}: {body}");
    }
}
