/**
 * True when a uri can have come from this template: `{var}` stands for one path segment, `{+var}` for any rest
 * (decisions 4.7). Other operators of RFC 6570 are matched as widely as they expand.
 *
 * Templates come from upstreams and uris from clients, so this is no regular expression: it walks the uri once, with
 * the set of places in the template that it may have reached, and cannot be made to backtrack.
 */
export function matchTemplate(template: string, uri: string): boolean {
  const steps = parse(template);
  let places = closure(steps, [0]);
  for (const character of uri) {
    const next: number[] = [];
    for (const place of places) {
      const step = steps[place];
      if (step?.kind === 'text' && step.character === character) next.push(place + 1);
      else if (step?.kind === 'any' && (step.slash || character !== '/')) next.push(place, place + 1);
    }
    if (next.length === 0) return false;
    places = closure(steps, next);
  }
  return places.has(steps.length);
}

/** `any` takes one or more characters, or none at all where it is optional. */
type Step =
  | { readonly kind: 'text'; readonly character: string }
  | { readonly kind: 'any'; readonly slash: boolean; readonly optional: boolean };

function parse(template: string): Step[] {
  const steps: Step[] = [];
  let at = 0;
  for (const expression of template.matchAll(/\{([^}]*)\}/g)) {
    steps.push(...textSteps(template.slice(at, expression.index)), expand(expression[1] ?? ''));
    at = expression.index + expression[0].length;
  }
  return [...steps, ...textSteps(template.slice(at))];
}

function textSteps(text: string): Step[] {
  return [...text].map((character) => ({ kind: 'text', character }));
}

function expand(expression: string): Step {
  const operator = expression[0] ?? '';
  if (operator === '+') return { kind: 'any', slash: true, optional: false };
  if ('#?&/'.includes(operator) && operator) return { kind: 'any', slash: true, optional: true };
  return { kind: 'any', slash: false, optional: operator === '.' || operator === ';' };
}

/** The places with those that can be reached from them without a character. */
function closure(steps: readonly Step[], places: readonly number[]): Set<number> {
  const reached = new Set<number>();
  for (let place of places) {
    reached.add(place);
    for (let step = steps[place]; step?.kind === 'any' && step.optional; step = steps[place]) reached.add(++place);
  }
  return reached;
}
