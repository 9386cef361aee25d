//! Filters and tests of minijinja that walk values many times within one instruction, counted.

use minijinja::value::{Kwargs, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions, tests};

use super::{charge, deadline, sharing};

/// Replaces them in an environment.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("sort", sort);
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("groupby", groupby);
    environment.add_filter("unique", unique);
    environment.add_filter("sum", sum);
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.add_filter("lines", lines);
    // Jinja2 has no such filter, and dicts chained to dicts are looked up one after the other
    environment.remove_filter("chain");
    environment.add_function("namespace", namespace);
    let comparisons: [(&[&'static str], Comparison); 6] = [
        (&["eq", "equalto", "=="], tests::is_eq),
        (&["ne", "!="], tests::is_ne),
        (&["lt", "lessthan", "<"], tests::is_lt),
        (&["le", "<="], tests::is_le),
        (&["gt", "greaterthan", ">"], tests::is_gt),
        (&["ge", ">="], tests::is_ge),
    ];
    for (names, test) in comparisons {
        for name in names {
            environment.add_test(*name, compared(test));
        }
    }
    environment.add_test("in", is_in);
}

type Comparison = fn(&Value, &Value) -> bool;

/// A comparison, one of many in a `select`.
fn compared(
    test: Comparison,
) -> impl Fn(&Value, &Value) -> Result<bool, Error> + Send + Sync + 'static {
    move |left, right| deadline::check().map(|()| test(left, right))
}

fn is_in(state: &State<'_, '_>, value: &Value, other: &Value) -> Result<bool, Error> {
    deadline::check()?;
    tests::is_in(state, value, other)
}

/// Counts the comparisons of a sort: each item is compared as often as the number of items has
/// digits.
fn sorts(value: &Value) -> Result<(), Error> {
    let digits = usize::BITS - value.len().unwrap_or(usize::MAX).leading_zeros();
    charge::steps(sharing::size(value)?.saturating_mul(digits as usize))
}

fn sort(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<Value, Error> {
    sorts(&value)?;
    filters::sort(state, value, options)
}

fn dictsort(value: &Value, options: Kwargs) -> Result<Value, Error> {
    sorts(value)?;
    filters::dictsort(value, options)
}

fn groupby(value: Value, attribute: Option<&str>, options: Kwargs) -> Result<Value, Error> {
    sorts(&value)?;
    filters::groupby(value, attribute, options)
}

fn unique(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<Value, Error> {
    sorts(&value)?;
    filters::unique(state, value, options)
}

/// The sum of numbers, or the items of lists in one list, which minijinja copies for each of them.
fn sum(
    state: &State<'_, '_>,
    values: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let first = match &start {
        Some(start) => Some(start.clone()),
        None => options.get::<Option<Value>>("start")?,
    };
    let Some(first) = first.filter(|first| !first.is_number()) else {
        return filters::sum(state, values, attribute, start, options);
    };
    let attribute = match attribute {
        Some(attribute) => Some(attribute),
        None => options.get::<Option<&str>>("attribute")?,
    };
    options.assert_all_used()?;
    let mut all = Vec::new();
    let mut add = |list: &Value| {
        if !matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) {
            let reason = format!("sum adds numbers or lists, not a value of type {}", list.kind());
            return Err(Error::new(ErrorKind::InvalidOperation, reason));
        }
        for item in list.try_iter()? {
            charge::items(all.len())?;
            all.push(item);
        }
        Ok(())
    };
    add(&first)?;
    for value in values.try_iter()? {
        add(&match attribute {
            Some(path) => path.split('.').try_fold(value, |value, name| value.get_attr(name))?,
            None => value,
        })?;
    }
    Ok(Value::from(all))
}

fn batch(
    state: &State<'_, '_>,
    value: Value,
    count: usize,
    fill: Option<Value>,
) -> Result<Value, Error> {
    charge::items(count)?;
    filters::batch(state, value, count, fill)
}

fn slice(
    state: &State<'_, '_>,
    value: Value,
    count: usize,
    fill: Option<Value>,
) -> Result<Value, Error> {
    charge::items(count)?;
    filters::slice(state, value, count, fill)
}

fn lines(value: &Value) -> Result<Value, Error> {
    charge::items(value.as_str().map_or(0, |text| text.matches('\n').count()))?;
    filters::lines(value)
}

fn namespace(attributes: Option<ValueOrKwargs>) -> Result<Value, Error> {
    let namespace = functions::namespace(attributes)?;
    sharing::size(&namespace)?;
    Ok(namespace)
}
