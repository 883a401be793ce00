//! The functions that rules may call, with their types.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use super::kinds::Type;

/// An overload of a function: the types of its arguments and of its result, in the notation of [`DECLARED`].
#[derive(Debug, PartialEq, Eq)]
pub(in crate::schema) struct Overload {
    pub(in crate::schema) arguments: Vec<&'static str>,
    result: &'static str,
}

/// The result of a call, and the overloads that may be called: several if types are known only at run time.
pub(super) struct Resolution<'s> {
    pub(super) result: Type<'s>,
    pub(super) overloads: Vec<&'static Overload>,
}

/// Every function: those of the language, of its extensions for strings, sets, lists and optional values, and those of Kubernetes.
///
/// A line has a name and its overloads. A name that begins with a dot is called on its first argument. `A` and `B` are any types,
/// `num` is any number.
const DECLARED: &str = "
!_ = bool > bool
-_ = int > int; double > double
_?_:_ = bool A A > A
_==_ = A A > bool
_!=_ = A A > bool
_<_ = num num > bool; bool bool > bool; string string > bool; bytes bytes > bool; time time > bool; span span > bool
_<=_ = num num > bool; bool bool > bool; string string > bool; bytes bytes > bool; time time > bool; span span > bool
_>_ = num num > bool; bool bool > bool; string string > bool; bytes bytes > bool; time time > bool; span span > bool
_>=_ = num num > bool; bool bool > bool; string string > bool; bytes bytes > bool; time time > bool; span span > bool
@in = A list(A) > bool; A map(A,B) > bool
@not_strictly_false = bool > bool
_+_ = int int > int; uint uint > uint; double double > double; string string > string; bytes bytes > bytes; list(A) list(A) > list(A); time span > time; span time > time; span span > span
_-_ = int int > int; uint uint > uint; double double > double; time time > span; time span > time; span span > span
_*_ = int int > int; uint uint > uint; double double > double
_/_ = int int > int; uint uint > uint; double double > double
_%_ = int int > int; uint uint > uint
_[_] = list(A) int > A; map(A,B) A > B; optional(list(A)) int > optional(A); optional(map(A,B)) A > optional(B)
_[?_] = list(A) int > optional(A); optional(list(A)) int > optional(A); map(A,B) A > optional(B); optional(map(A,B)) A > optional(B)
size = string > int; bytes > int; list(A) > int; map(A,B) > int
.size = string > int; bytes > int; list(A) > int; map(A,B) > int
type = A > type
dyn = A > dyn
bool = bool > bool; string > bool
bytes = bytes > bytes; string > bytes
double = double > double; int > double; uint > double; string > double
int = int > int; uint > int; double > int; string > int; time > int
uint = uint > uint; int > uint; double > uint; string > uint
string = string > string; bool > string; int > string; uint > string; double > string; bytes > string; time > string; span > string; ip > string; cidr > string
timestamp = time > time; string > time; int > time
duration = span > span; string > span; int > span
matches = string string > bool
.matches = string string > bool
.contains = string string > bool; cidr string > bool; cidr ip > bool
.startsWith = string string > bool
.endsWith = string string > bool
.getFullYear = time > int; time string > int
.getMonth = time > int; time string > int
.getDate = time > int; time string > int
.getDayOfMonth = time > int; time string > int
.getDayOfWeek = time > int; time string > int
.getDayOfYear = time > int; time string > int
.getHours = time > int; time string > int; span > int
.getMinutes = time > int; time string > int; span > int
.getSeconds = time > int; time string > int; span > int
.getMilliseconds = time > int; time string > int; span > int
.charAt = string int > string
.indexOf = string string > int; string string int > int; list(A) A > int
.lastIndexOf = string string > int; string string int > int; list(A) A > int
.lowerAscii = string > string
.upperAscii = string > string
.replace = string string string > string; string string string int > string
.split = string string > list(string); string string int > list(string)
.substring = string int > string; string int int > string
.trim = string > string
.format = string list(dyn) > string
strings.quote = string > string
.join = list(string) > string; list(string) string > string
.find = string string > string
.findAll = string string > list(string); string string int > list(string)
sets.contains = list(A) list(A) > bool
sets.equivalent = list(A) list(A) > bool
sets.intersects = list(A) list(A) > bool
.isSorted = list(A) > bool
.sum = list(int) > int; list(uint) > uint; list(double) > double; list(span) > span
.min = list(A) > A
.max = list(A) > A
.slice = list(A) int int > list(A)
.flatten = list(list(A)) > list(A); list(dyn) int > list(dyn)
.sort = list(int) > list(int); list(uint) > list(uint); list(double) > list(double); list(bool) > list(bool); list(span) > list(span); list(time) > list(time); list(string) > list(string); list(bytes) > list(bytes)
.@sortByAssociatedKeys = list(A) list(int) > list(A); list(A) list(uint) > list(A); list(A) list(double) > list(A); list(A) list(bool) > list(A); list(A) list(span) > list(A); list(A) list(time) > list(A); list(A) list(string) > list(A); list(A) list(bytes) > list(A)
.reverse = list(A) > list(A)
.distinct = list(A) > list(A)
.first = list(A) > optional(A)
.last = list(A) > optional(A)
lists.range = int > list(int)
cel.@mapInsert = map(A,B) A B > map(A,B); map(A,B) map(A,B) > map(A,B)
optional.of = A > optional(A)
optional.ofNonZeroValue = A > optional(A)
optional.none = > optional(dyn)
optional.unwrap = list(optional(A)) > list(A)
.unwrapOpt = list(optional(A)) > list(A)
.value = optional(A) > A
.hasValue = optional(A) > bool
.or = optional(A) optional(A) > optional(A)
.orValue = optional(A) A > A
url = string > url
isURL = string > bool
.getScheme = url > string
.getHost = url > string
.getHostname = url > string
.getPort = url > string
.getEscapedPath = url > string
.getQuery = url > map(string,list(string))
quantity = string > quantity
isQuantity = string > bool
.isInteger = quantity > bool
.asInteger = quantity > int
.asApproximateFloat = quantity > double
.sign = quantity > int
.add = quantity quantity > quantity; quantity int > quantity
.sub = quantity quantity > quantity; quantity int > quantity
.isGreaterThan = quantity quantity > bool; semver semver > bool
.isLessThan = quantity quantity > bool; semver semver > bool
.compareTo = quantity quantity > int; semver semver > int
ip = string > ip
.ip = cidr > ip
isIP = string > bool
ip.isCanonical = string > bool
.family = ip > int
.isUnspecified = ip > bool
.isLoopback = ip > bool
.isLinkLocalMulticast = ip > bool
.isLinkLocalUnicast = ip > bool
.isGlobalUnicast = ip > bool
cidr = string > cidr
isCIDR = string > bool
.containsIP = cidr string > bool; cidr ip > bool
.containsCIDR = cidr string > bool; cidr cidr > bool
.prefixLength = cidr > int
.masked = cidr > cidr
semver = string > semver; string bool > semver
isSemver = string > bool; string bool > bool
.major = semver > int
.minor = semver > int
.patch = semver > int
.validate = format string > optional(list(string))
format.named = string > optional(format)
format.dns1123Label = > format
format.dns1123Subdomain = > format
format.dns1035Label = > format
format.qualifiedName = > format
format.dns1123LabelPrefix = > format
format.dns1123SubdomainPrefix = > format
format.dns1035LabelPrefix = > format
format.labelValue = > format
format.uri = > format
format.uuid = > format
format.byte = > format
format.date = > format
format.datetime = > format
";

static OVERLOADS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let lines = DECLARED.lines().filter_map(|line| line.split_once(" = "));
    lines.map(|(name, overloads)| (name, overloads.split(';').filter_map(overload).collect())).collect()
});

fn overload(text: &'static str) -> Option<Overload> {
    let (arguments, result) = text.split_once('>')?;
    Some(Overload { arguments: arguments.split_whitespace().collect(), result: result.trim() })
}

/// Returns whether a function exists.
pub(super) fn exists(name: &str) -> bool {
    OVERLOADS.contains_key(name)
}

/// Returns the overloads that take the arguments; none if there is no such overload.
pub(super) fn resolve<'s>(name: &str, arguments: &[Type<'s>]) -> Option<Resolution<'s>> {
    let candidates = OVERLOADS.get(name)?.iter();
    let mut overloads = Vec::new();
    let mut result: Option<Type<'s>> = None;
    for overload in candidates.filter(|overload| overload.arguments.len() == arguments.len()) {
        let mut bound = [None, None];
        let mut pairs = overload.arguments.iter().zip(arguments);
        if !pairs.all(|(wanted, given)| fits(&parse(wanted), given, &mut bound)) {
            continue;
        }
        overloads.push(overload);
        let this = resolved(&parse(overload.result), &bound);
        result = match result {
            None => Some(this),
            Some(other) if other == this => Some(other),
            Some(_) if arguments.contains(&Type::Unknown) => Some(Type::Unknown),
            Some(_) => Some(Type::Dyn),
        };
    }
    result.map(|result| Resolution { result, overloads })
}

/// Returns whether two types can be the same.
pub(super) fn are_joinable<'s>(one: &Type<'s>, other: &Type<'s>) -> bool {
    let mut bound = [Some(one.clone()), None];
    fits(&Type::Parameter(0), other, &mut bound)
}

fn parse<'s>(text: &str) -> Type<'s> {
    if let Some((outer, inner)) = text.split_once('(') {
        let inner = inner.strip_suffix(')').unwrap_or(inner);
        return match (outer, inner.split_once(',')) {
            ("list", _) => Type::List(Rc::new(parse(inner))),
            ("map", Some((key, value))) => Type::Map(Rc::new(parse(key)), Rc::new(parse(value))),
            _ => Type::Optional(Rc::new(parse(inner))),
        };
    }
    match text {
        "A" => Type::Parameter(0),
        "B" => Type::Parameter(1),
        "num" => Type::Number,
        "type" => Type::Kind,
        "bool" => Type::Simple("bool"),
        "int" => Type::Simple("int"),
        "uint" => Type::Simple("uint"),
        "double" => Type::Simple("double"),
        "string" => Type::Simple("string"),
        "bytes" => Type::Simple("bytes"),
        "time" => Type::Simple("google.protobuf.Timestamp"),
        "span" => Type::Simple("google.protobuf.Duration"),
        "quantity" => Type::Simple("kubernetes.Quantity"),
        "url" => Type::Simple("kubernetes.URL"),
        "semver" => Type::Simple("kubernetes.Semver"),
        "format" => Type::Simple("kubernetes.NamedFormat"),
        "ip" => Type::Simple("net.IP"),
        "cidr" => Type::Simple("net.CIDR"),
        _ => Type::Dyn,
    }
}

/// Returns whether a type fits a type with parameters; binds the parameters.
fn fits<'s>(wanted: &Type<'s>, given: &Type<'s>, bound: &mut [Option<Type<'s>>; 2]) -> bool {
    if let Type::Parameter(index) = wanted {
        let Some(known) = bound[*index].clone() else {
            bound[*index] = Some(given.clone());
            return true;
        };
        if matches!(known, Type::Unknown) || (known == Type::Null && given.is_nullable()) {
            bound[*index] = Some(given.clone());
            return true;
        }
        return fits(&known, given, bound) || fits(given, &known, bound);
    }
    match (wanted, given) {
        (_, Type::Unknown | Type::Dyn) | (Type::Unknown | Type::Dyn, _) => true,
        (wanted, Type::Null) if wanted.is_nullable() => true,
        (Type::Number, Type::Simple(name)) => ["int", "uint", "double"].contains(name),
        (Type::List(wanted), Type::List(given)) | (Type::Optional(wanted), Type::Optional(given)) => {
            fits(wanted, given, bound)
        }
        (Type::Map(key, value), Type::Map(given_key, given_value)) => {
            fits(key, given_key, bound) && fits(value, given_value, bound)
        }
        (wanted, given) => wanted == given,
    }
}

fn resolved<'s>(result: &Type<'s>, bound: &[Option<Type<'s>>; 2]) -> Type<'s> {
    let inner = |inner: &Rc<Type<'s>>| Rc::new(resolved(inner, bound));
    match result {
        Type::Parameter(index) => bound[*index].clone().unwrap_or(Type::Unknown),
        Type::List(item) => Type::List(inner(item)),
        Type::Map(key, value) => Type::Map(inner(key), inner(value)),
        Type::Optional(value) => Type::Optional(inner(value)),
        other => other.clone(),
    }
}
