//! Expands the macros that the parser leaves as calls: those with two variables, `optMap`, `optFlatMap` and `sortBy`.
//!
//! The library evaluates only loops with one variable. So a loop with two variables is evaluated as one over pairs. Types and costs
//! follow from the expansion of the server.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};

/// The variable with the result of the previous steps. No rule can name it.
const ACCUMULATOR: &str = "@result";
/// The name of [`ACCUMULATOR`] in earlier versions of the language, which rules can't use as a variable either.
const FORMER_ACCUMULATOR: &str = "__result__";
/// The first id of an expression that a macro creates. The ids of the parser are far below.
const IDS: u64 = 1 << 32;
/// The variable with an index or key and the value.
const PAIR: &str = "@pair";

/// The function that returns the indices or keys of a list or map with their values.
pub(super) const PAIRS: &str = "@pairs";
/// The function that adds a key with a value, or the entries of a map, to a map.
pub(super) const INSERTED: &str = "cel.@mapInsert";
/// The function that sorts a list by a list of keys.
pub(super) const SORTED: &str = "@sortByAssociatedKeys";

/// What the expansion of an expression adds to it.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    /// The ids of the added expressions, each with the id of the expression whose place in the source it has.
    pub(super) origins: BTreeMap<u64, u64>,
    /// Ids of arguments that a macro can't take, with what is wrong.
    pub(super) errors: Vec<(u64, String)>,
}

/// Expands all macros in an expression.
pub(super) fn expand(expression: &mut IdedExpr) -> Expansion {
    expand_as(expression, false)
}

/// Expands all macros in an expression for its evaluation, which needs the functions [`PAIRS`], [`INSERTED`] and [`SORTED`].
pub(super) fn expand_for_evaluation(expression: &mut IdedExpr) {
    expand_as(expression, true);
}

fn expand_as(expression: &mut IdedExpr, is_evaluated: bool) -> Expansion {
    let mut expander = Expander { is_evaluated, expansion: Expansion::default(), origin: 0, next: IDS };
    expander.walk(expression);
    expander.expansion
}

struct Expander {
    is_evaluated: bool,
    expansion: Expansion,
    /// The call that is being expanded.
    origin: u64,
    next: u64,
}

impl Expander {
    fn walk(&mut self, expression: &mut IdedExpr) {
        for part in parts(&mut expression.expr) {
            self.walk(part);
        }
        if let Expr::Call(call) = &mut expression.expr
            && let Some(target) = call.target.take_if(|_| is_macro(&call.func_name, call.args.len()))
        {
            self.origin = expression.id;
            let arguments = std::mem::take(&mut call.args);
            let name = std::mem::take(&mut call.func_name);
            if let Some(expanded) = self.expanded(&name, *target, arguments) {
                expression.expr = expanded.expr;
            }
        }
    }

    /// Returns the expansion of a macro; none if its arguments are wrong.
    fn expanded(&mut self, name: &str, target: IdedExpr, arguments: Vec<IdedExpr>) -> Option<IdedExpr> {
        let mut arguments = arguments.into_iter();
        let first = arguments.next()?;
        match name {
            "optMap" | "optFlatMap" => {
                let problem = format!("{name}() variable name must be a simple identifier");
                let variable = self.variable(&first, &problem)?;
                Some(self.optional(name == "optMap", target, variable, arguments.next()?))
            }
            "sortBy" => {
                let variable = self.variable(&first, "argument is not an identifier")?;
                Some(self.sorted(target, variable, arguments.next()?))
            }
            _ => {
                let second = arguments.next()?;
                let variables = self.variables(&first, &second)?;
                let (body, filter) = match (arguments.next()?, arguments.next()) {
                    (filter, Some(body)) => (body, Some(filter)),
                    (body, None) => (body, None),
                };
                Some(self.with_two_variables(name, target, variables, filter, body))
            }
        }
    }

    fn report<T>(&mut self, id: u64, problem: &str) -> Option<T> {
        self.expansion.errors.push((id, problem.to_owned()));
        None
    }

    fn variable(&mut self, argument: &IdedExpr, problem: &str) -> Option<String> {
        match &argument.expr {
            Expr::Ident(name) if name == FORMER_ACCUMULATOR => {
                self.report(argument.id, "iteration variable overwrites accumulator variable")
            }
            Expr::Ident(name) => Some(name.clone()),
            _ => self.report(argument.id, problem),
        }
    }

    fn variables(&mut self, first: &IdedExpr, second: &IdedExpr) -> Option<[String; 2]> {
        let problem = "argument must be a simple name";
        let names = [self.variable(first, problem)?, self.variable(second, problem)?];
        if names[0] == names[1] {
            return self.report(second.id, &format!("duplicate variable name: {}", names[0]));
        }
        Some(names)
    }

    fn with_two_variables(
        &mut self,
        name: &str,
        range: IdedExpr,
        [first, second]: [String; 2],
        filter: Option<IdedExpr>,
        body: IdedExpr,
    ) -> IdedExpr {
        let (start, condition, step, result);
        match name {
            "all" => {
                start = self.boolean(true);
                condition = self.call_on_accumulator(operators::NOT_STRICTLY_FALSE, None);
                step = self.call_on_accumulator(operators::LOGICAL_AND, Some(body));
                result = self.accumulator();
            }
            "exists" => {
                start = self.boolean(false);
                let not_yet = self.call_on_accumulator(operators::LOGICAL_NOT, None);
                condition = self.call(operators::NOT_STRICTLY_FALSE, vec![not_yet]);
                step = self.call_on_accumulator(operators::LOGICAL_OR, Some(body));
                result = self.accumulator();
            }
            "exists_one" | "existsOne" => {
                start = self.integer(0);
                condition = self.boolean(true);
                let (one, other) = (self.integer(1), self.integer(1));
                let counted = self.call_on_accumulator(operators::ADD, Some(one));
                step = self.if_accepted(Some(body), counted);
                result = self.call_on_accumulator(operators::EQUALS, Some(other));
            }
            "transformList" => {
                start = self.list(Vec::new());
                condition = self.boolean(true);
                let item = self.list(vec![body]);
                let added = self.call_on_accumulator(operators::ADD, Some(item));
                step = self.if_accepted(filter, added);
                result = self.accumulator();
            }
            _ => {
                start = self.node(Expr::Map(MapExpr::default()));
                condition = self.boolean(true);
                let mut inserted = vec![self.accumulator()];
                if name == "transformMap" {
                    inserted.push(self.node(Expr::Ident(first.clone())));
                }
                inserted.push(body);
                let inserted = self.call(INSERTED, inserted);
                step = self.if_accepted(filter, inserted);
                result = self.accumulator();
            }
        }
        let mut parts = ComprehensionExpr {
            iter_range: range,
            iter_var: first,
            iter_var2: Some(second),
            accu_var: ACCUMULATOR.to_owned(),
            accu_init: start,
            loop_cond: condition,
            loop_step: step,
            result,
        };
        if self.is_evaluated {
            self.loop_over_pairs(&mut parts);
        }
        self.node(Expr::Comprehension(Box::new(parts)))
    }

    fn loop_over_pairs(&mut self, parts: &mut ComprehensionExpr) {
        let range = std::mem::take(&mut parts.iter_range);
        parts.iter_range = self.call(PAIRS, vec![range]);
        let second = parts.iter_var2.take();
        let first = std::mem::replace(&mut parts.iter_var, PAIR.to_owned());
        for (index, name) in [(1, second), (0, Some(first))] {
            let Some(name) = name else { continue };
            let place = vec![self.node(Expr::Ident(PAIR.to_owned())), self.integer(index)];
            let value = self.call(operators::INDEX, place);
            let step = std::mem::take(&mut parts.loop_step);
            parts.loop_step = self.bind(name, value, step);
        }
    }

    /// Returns the accumulator for an element that the filter does not accept.
    fn if_accepted(&mut self, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
        match filter {
            Some(filter) => {
                let unchanged = self.accumulator();
                self.call(operators::CONDITIONAL, vec![filter, step, unchanged])
            }
            None => step,
        }
    }

    fn optional(&mut self, is_wrapped: bool, target: IdedExpr, variable: String, body: IdedExpr) -> IdedExpr {
        let copy = self.copy(&target);
        let is_set = self.member(target, "hasValue", Vec::new());
        let value = self.member(copy, "value", Vec::new());
        let mut mapped = self.bind(variable, value, body);
        if is_wrapped {
            mapped = self.call("optional.of", vec![mapped]);
        }
        let none = self.call("optional.none", Vec::new());
        self.call(operators::CONDITIONAL, vec![is_set, mapped, none])
    }

    fn sorted(&mut self, target: IdedExpr, variable: String, key: IdedExpr) -> IdedExpr {
        let input = "@__sortBy_input__";
        let (range, list) =
            (self.node(Expr::Ident(input.to_owned())), self.node(Expr::Ident(input.to_owned())));
        let (start, condition, item) = (self.list(Vec::new()), self.boolean(true), self.list(vec![key]));
        let step = self.call_on_accumulator(operators::ADD, Some(item));
        let result = self.accumulator();
        let keys = self.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: range,
            iter_var: variable,
            iter_var2: None,
            accu_var: ACCUMULATOR.to_owned(),
            accu_init: start,
            loop_cond: condition,
            loop_step: step,
            result,
        })));
        let sorted = self.member(list, SORTED, vec![keys]);
        self.bind(input.to_owned(), target, sorted)
    }

    /// Returns an expression that is evaluated with a variable: a loop without elements.
    fn bind(&mut self, variable: String, value: IdedExpr, body: IdedExpr) -> IdedExpr {
        let (range, condition) = (self.list(Vec::new()), self.boolean(false));
        let step = self.node(Expr::Ident(variable.clone()));
        self.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: range,
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: variable,
            accu_init: value,
            loop_cond: condition,
            loop_step: step,
            result: body,
        })))
    }

    /// Returns a copy at the same place.
    fn copy(&mut self, original: &IdedExpr) -> IdedExpr {
        let mut copy = original.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expression: &mut IdedExpr) {
        let origin = self.expansion.origins.get(&expression.id).copied().unwrap_or(expression.id);
        expression.id = self.new_id(origin);
        for part in parts(&mut expression.expr) {
            self.renumber(part);
        }
    }

    fn new_id(&mut self, origin: u64) -> u64 {
        let id = self.next;
        self.next += 1;
        self.expansion.origins.insert(id, origin);
        id
    }

    fn node(&mut self, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.new_id(self.origin), expr }
    }

    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    fn member(&mut self, target: IdedExpr, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        let target = Some(Box::new(target));
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target, args }))
    }

    fn call_on_accumulator(&mut self, name: &str, other: Option<IdedExpr>) -> IdedExpr {
        let mut arguments = vec![self.accumulator()];
        arguments.extend(other);
        self.call(name, arguments)
    }

    fn accumulator(&mut self) -> IdedExpr {
        self.node(Expr::Ident(ACCUMULATOR.to_owned()))
    }

    fn boolean(&mut self, value: bool) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn integer(&mut self, value: i64) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Int(value.into())))
    }

    fn list(&mut self, elements: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::List(ListExpr::new(elements)))
    }
}

/// Returns whether a call on a target is one of the macros.
fn is_macro(name: &str, arguments: usize) -> bool {
    match name {
        "all" | "exists" | "exists_one" | "existsOne" => arguments == 3,
        "transformList" | "transformMap" | "transformMapEntry" => arguments == 3 || arguments == 4,
        "optMap" | "optFlatMap" | "sortBy" => arguments == 2,
        _ => false,
    }
}

/// Returns the expressions that an expression consists of.
fn parts(expr: &mut Expr) -> Vec<&mut IdedExpr> {
    match expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(parts) => {
            let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } =
                parts.as_mut();
            vec![iter_range, accu_init, loop_cond, loop_step, result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut().map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
                EntryExpr::StructField(field) => vec![&mut field.value],
            });
            entries.flatten().collect()
        }
        Expr::Select(select) => vec![select.operand.as_mut()],
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}
