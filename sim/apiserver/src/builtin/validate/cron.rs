//! Schedules of `CronJob`s: five fields, or a word such as `@daily`.

/// Names of consecutive numbers.
type Names = &'static [&'static str];

const MONTHS: Names = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: Names = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Minute, hour, day of the month, month, day of the week: bounds and names.
const FIELDS: [(u32, u32, Names); 5] =
    [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];

/// Returns what is wrong with a schedule, if anything.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let zoned = ["TZ=", "CRON_TZ="].iter().any(|prefix| schedule.starts_with(prefix));
    let rest = if zoned { schedule.split_once(' ').map_or("", |(_, rest)| rest.trim()) } else { schedule };
    if rest.starts_with('@') {
        let known = WORDS.contains(&rest) || rest.starts_with("@every ");
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {rest}")) };
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(FIELDS) {
        for expression in field.split(',').filter(|expression| !expression.is_empty()) {
            range(expression, bounds)?;
        }
    }
    Ok(())
}

fn range(expression: &str, (min, max, names): (u32, u32, Names)) -> Result<(), String> {
    let parts: Vec<&str> = expression.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (min, max)
    } else {
        let start = number(ends[0], min, names)?;
        match ends[..] {
            [_] => (start, start),
            [_, end] => (start, number(end, min, names)?),
            _ => return Err(format!("too many hyphens: {expression}")),
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = max;
            }
            number(step, 0, &[])?
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    match () {
        () if start < min => Err(format!("beginning of range ({start}) below minimum ({min}): {expression}")),
        () if end > max => Err(format!("end of range ({end}) above maximum ({max}): {expression}")),
        () if start > end => {
            Err(format!("beginning of range ({start}) beyond end of range ({end}): {expression}"))
        }
        () if step == 0 => Err(format!("step of range should be a positive number: {expression}")),
        () => Ok(()),
    }
}

fn number(text: &str, first: u32, names: Names) -> Result<u32, String> {
    let by_name = names.iter().position(|name| text.eq_ignore_ascii_case(name));
    if let Some(index) = by_name.and_then(|index| u32::try_from(index).ok()) {
        return Ok(first + index);
    }
    match text.parse::<i64>() {
        Ok(number) => {
            u32::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
        }
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}
