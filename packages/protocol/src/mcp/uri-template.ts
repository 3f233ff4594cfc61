/**
 * True when a uri can have come from this template: `{var}` stands for one path segment, `{+var}` for any rest
 * (decisions 4.7). Other operators of RFC 6570 are matched as widely as they expand.
 *
 * Templates come from upstreams and uris from clients, so this is no regular expression: it walks the uri once, with
 * the places in the template that it may have reached. What would take more than {@link PLACES} of them on average is
 * no match, so that the time is linear in the length of both, whatever they are.
 */
export function matchTemplate(template: string, uri: string): boolean {
  const fixed = template.indexOf('{');
  if (fixed === -1) return template === uri;
  // Most templates are ruled out by how they begin.
  if (uri.length > LONGEST_URI || template.length > LONGEST_URI || !uri.startsWith(template.slice(0, fixed)))
    return false;

  const steps = parse(template.slice(fixed));
  /** At which character of the uri each place was last reached. */
  const reached = new Int32Array(steps.length + 1).fill(-1);
  let at = 0;
  let next: number[] = [];
  /** Adds a place, with those that can be reached from it without a character. */
  const reach = (from: number): void => {
    for (let place = from; reached[place] !== at; place++) {
      reached[place] = at;
      next.push(place);
      const step = steps[place];
      if (step?.kind !== 'any' || !step.optional) return;
    }
  };
  reach(0);
  let budget = PLACES * (steps.length + uri.length);
  for (const character of uri.slice(fixed)) {
    const places = next;
    budget -= places.length;
    if (places.length === 0 || budget < 0) return false;
    next = [];
    at++;
    for (const place of places) {
      const step = steps[place];
      if (step?.kind === 'text' && step.character === character) reach(place + 1);
      else if (step?.kind === 'any' && (step.slash || character !== '/')) {
        reach(place);
        reach(place + 1);
      }
    }
  }
  return reached[steps.length] === at;
}

/** No server offers uris of this length, and looking for a longer one among thousands of templates would take long. */
const LONGEST_URI = 8192;
/** Places that are followed on average; templates that people write need two or three. */
const PLACES = 16;

/** `any` takes one or more characters, or none at all where it is optional. */
type Step =
  | { readonly kind: 'text'; readonly character: string }
  | { readonly kind: 'any'; readonly slash: boolean; readonly optional: boolean };

function parse(template: string): Step[] {
  const steps: Step[] = [];
  let at = 0;
  for (;;) {
    const open = template.indexOf('{', at);
    const close = open === -1 ? -1 : template.indexOf('}', open);
    addText(steps, close === -1 ? template.slice(at) : template.slice(at, open));
    if (close === -1) return steps;
    steps.push(expand(template.slice(open + 1, close)));
    at = close + 1;
  }
}

function addText(steps: Step[], text: string): void {
  for (const character of text) steps.push({ kind: 'text', character });
}

function expand(expression: string): Step {
  const operator = expression[0] ?? '';
  if (operator === '+') return { kind: 'any', slash: true, optional: false };
  if ('#?&/'.includes(operator) && operator) return { kind: 'any', slash: true, optional: true };
  return { kind: 'any', slash: false, optional: operator === '.' || operator === ';' };
}
