//! Templates that build values which share their parts, and templates that only take time.

use std::thread;
use std::time::{Duration, Instant};

use pelton_chat::{Chat, Clock, Error, Limits, Message, Template};

/// A list that holds another twice, 60 times over, each written as `step` in a loop or one after
/// the other.
const DOUBLE: &str = "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}\
                      {% set ns.a = [ns.a, ns.a] %}{% endfor %}";

/// The sentence of a template that exceeds a limit. A rendering that adapts probes the template
/// too, within the same time.
fn sentence(source: &str, limits: Limits, adapt: bool) -> String {
    let begin = Instant::now();
    let template = Template::with(source, Clock::Fixed(0), limits).unwrap();
    let mut chat = Chat::new(vec![Message::new("system", "x"), Message::new("user", "x < y")]);
    chat.adapt = adapt;
    let error = template.render(&chat).unwrap_err();
    let taken = begin.elapsed();
    assert!(taken < limits.time * 3 + Duration::from_secs(2), "{taken:?}: {source:.300}");
    let sentence = error.to_string();
    assert!(!sentence.contains('\n') && sentence.starts_with("the chat template "), "{sentence}");
    assert!(matches!(error, Error::Limit { .. }), "{sentence}: {source:.300}");
    sentence
}

#[test]
fn a_value_counts_its_shared_parts() {
    assert!(DOUBLE.len() < 130);
    for double in [
        DOUBLE.to_owned(),
        "{% set a = [1] %}".to_owned() + &"{% set a = [a, a] %}".repeat(60),
        "{% set a = 1 %}".to_owned() + &"{% set a = (a, a) %}".repeat(60),
        "{% set a = 1 %}".to_owned() + &"{% set a = a, a %}".repeat(60),
        "{% set a = 1 %}".to_owned() + &"{% set a = {'x': a, 'y': a} %}".repeat(60),
        "{% set a = 1 %}".to_owned() + &"{% set a = dict(x=a, y=a) %}".repeat(60),
        "{% set a = 1 %}".to_owned() + &"{% set a = dict.fromkeys('xy', a) %}".repeat(60),
        "{% set a = [1] %}".to_owned() + &"{% set a = [a] * 2 %}".repeat(60),
        "{% set a = [1] %}".to_owned() + &"{% set a = [a] + [a] %}".repeat(60),
        "{% set a = [1] %}".to_owned() + &"{% set a = a + a %}".repeat(60),
        "{% set a = [1] %}".to_owned() + &"{% set a = [[a], [a]] | sum(start=[]) %}".repeat(60),
        "{% set a = [1] %}".to_owned()
            + &"{% set a = [nothing, nothing] | map('default', a) | list %}".repeat(60),
        "{% set a = [1] %}".to_owned() + &"{% set a = a | batch(2, a) | list %}".repeat(60),
        "{% set a = [1, 2] %}".to_owned()
            + &"{% set a = a | zip(a) | list %}".repeat(60)
            + &"{% set a = [a, a] %}".repeat(60),
        "{% set a = 'x' %}".to_owned() + &"{% set a = a ~ a %}".repeat(60),
        "{% set a = 'x' %}".to_owned() + &"{% set a = a * 2 %}".repeat(60),
        "{% set a = 'x' %}".to_owned() + &"{% set a = a + a %}".repeat(60),
        "{% set a = 'x' * 9999 %}".to_owned() + &"{% set a = [a] * 9999 %}".repeat(2),
        "{% macro f(a, n) %}{{ f([a, a], n - 1) if n }}{% endmacro %}{{ f([1], 60) }}".into(),
        "{% for a in [[1]] recursive %}{{ loop([[a, a]]) }}{% endfor %}".into(),
        "{% with a = [1] %}".to_owned()
            + &"{% with a = [a, a] %}".repeat(60)
            + &"{% endwith %}".repeat(61),
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% for b in [[ns.a, ns.a]] %}\
         {% set ns.a = b %}{% endfor %}{% endfor %}"
            .into(),
        "{% set ns = namespace(a=1) %}".to_owned()
            + &"{% set ns = namespace(a=[ns.a], b=ns.a) %}{% set ns.a = ns | items %}".repeat(60),
    ] {
        let found = sentence(&double, Limits::default(), false);
        let value = "the chat template exceeds the limit of 67108864 bytes of one value";
        // a text, and a list whose own items double
        let text = "the chat template exceeds the limit of 536870912 bytes of text";
        let is_long = ["a ~ a", "a * 2", "a + a"].iter().any(|step| double.contains(step));
        assert!(found == value || is_long && found == text, "{found}: {double:.200}");
    }
}

/// Ways to walk the values `a` and `b`.
const WALKS: &[&str] = &[
    "{{ a }}",
    "{{ a ~ 'x' }}",
    "{{ a | string | length }}",
    "{{ a | tojson }}",
    "{{ a | tojson(indent=2) }}",
    "{{ a | pprint }}",
    "{{ a | join }}",
    "{{ ','.join(a) }}",
    "{{ a == b }}",
    "{{ a != (b if true) }}",
    "{{ a < b }}",
    "{{ a <= (nothing or b) }}",
    "{{ 1 < a == b }}",
    "{{ a in [b, 1] }}",
    "{{ a in b }}",
    "{{ a in {b: 1} }}",
    "{{ {a: 1} == {b: 1} }}",
    "{{ {1: a} == {1: b} }}",
    "{{ {'x': 1}[a] }}",
    "{{ {'x': 1}.get(a) }}",
    "{{ a is eq b }}",
    "{{ a is in [b] }}",
    "{{ [a, a] | select('eq', b) | list }}",
    "{{ ([1] * 99) | select('in', a) | list }}",
    "{{ ([1] * 99) | rejectattr('x', 'in', a) | list }}",
    "{{ [a, b, a] | sort }}",
    "{{ [a, b, a] | unique }}",
    "{{ [a, b, a] | min }}",
    "{{ [a, b, a] | max }}",
    "{{ {'x': a, 'y': b} | dictsort(by='value') }}",
    "{{ [{'x': a}, {'x': b}] | groupby('x') }}",
    "{{ {'x': a, 'y': b} | items | list }}",
    "{{ {'x': a, 'y': b}.items() }}",
    "{{ [a, b].index(b) }}",
    "{{ [a, b].count(b) }}",
    "{{ a[0:][1] }}",
    "{{ loop.changed(a) ~ loop.changed(b) }}",
    "{{ a | upper }}",
    "{{ '%s' | format(a) }}",
    "{{ '{}'.format(a) }}",
    "{{ a is startingwith 'x' }}",
    "{% set c = namespace(x=a) %}{% set c.y = b %}",
    "{% set c, d = a, b %}{{ (c, d) == (d, c) }}",
    "{% macro f(x) %}{{ x == b }}{% endmacro %}{{ f(a) }}",
    "{% for x in a if x == b[0] %}{% endfor %}",
];

/// Each way to walk a value of nearly the greatest size, as often as a template likes.
#[test]
fn walks_end_at_the_deadline() {
    // 2^20 numbers in 20 levels, and the same again in other lists
    let lists = "{% set ns = namespace(a=1, b=1) %}{% for i in range(20) %}\
                 {% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}\
                 {% set a = ns.a %}{% set b = ns.b %}";
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(1);
    let ends = |walk: &str| {
        let source =
            format!("{lists}{{% for i in range(99999) %}}{}{{% endfor %}}", walk.repeat(3000));
        let found = sentence(&source, limits, true);
        let known = ["1 seconds", "bytes of text", "bytes of output", "instructions"];
        assert!(known.iter().any(|end| found.ends_with(end)), "{found}: {walk}");
    };
    // the time is that of a clock, so several pass it together
    thread::scope(|scope| {
        for some in WALKS.chunks(WALKS.len().div_ceil(8)) {
            scope.spawn(move || some.iter().copied().for_each(ends));
        }
    });
}

#[test]
fn cheap_instructions_end_at_the_deadline() {
    let mut limits = Limits::default();
    (limits.time, limits.fuel) = (Duration::from_secs(1), u64::MAX);
    for source in [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{% set a = f(n - 1) %}{% set a = f(n - 1) %}{% endif %}\
         {% endmacro %}{{ f(30) }}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% for a in range(99999) %}{% for b in range(99999) %}\
         {% call f() %}{% endcall %}{% endfor %}{% endfor %}",
        "{% for a in [1, 2] recursive %}{% if loop.depth < 50 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}",
    ] {
        let found = sentence(source, limits, true);
        assert_eq!(found, "the chat template exceeds the limit of 1 seconds", "{source}");
    }
    let blocks = (0..60).map(|i| {
        format!(
            "{{% block b{i} %}}{{{{ self.b{0}() }}}}{{{{ self.b{0}() }}}}{{% endblock %}}",
            i + 1
        )
    });
    let blocks = blocks.collect::<String>() + "{% block b60 %}{% endblock %}";
    assert_eq!(sentence(&blocks, limits, true), "the chat template exceeds the limit of 1 seconds");
}

/// Values are made many at once.
#[test]
fn many_values_are_refused() {
    for source in [
        "{{ [1] | batch(1000000000, 1) }}",
        "{{ [1] | slice(1000000000) }}",
        "{{ ('\n' * 9999999) | lines }}",
        "{{ ('\n' * 9999999).splitlines() }}",
        "{{ ('\n' * 9999999).split('\n') }}",
        "{{ ('\n' * 9999999).rsplit('\n') }}",
    ] {
        let found = sentence(source, Limits::default(), false);
        assert_eq!(found, "the chat template exceeds the limit of 536870912 bytes of text");
    }
    let splat = "{% set a = [1] * 99999 %}{{ dict(*a, *a, **a) }}";
    let template = Template::with(splat, Clock::Fixed(0), Limits::default()).unwrap();
    let error = template.render(&Chat::new(vec![Message::new("user", "x")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chat template failed in line 1: a call has more than 1000 arguments"
    );
    let error = Template::new(&" ".repeat(2 << 20)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chat template has an error in line 0: it has 2097152 bytes, expected at most 1048576"
    );
}
