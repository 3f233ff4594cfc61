import { isUtf8 } from 'node:buffer';

/**
 * True when a uri, as {@link decodeUnreserved} returns it, matches a template: `{var}` matches one path segment, `{+var}` any
 * rest. Other operators of RFC 6570 match everything that they can expand to.
 *
 * Templates come from upstreams and uris from clients, so this is not a regular expression: it simulates a nondeterministic
 * automaton in one pass over the uri. A match that needs more than {@link MAX_STATES} states on average is rejected, so that
 * the time is linear in the length of both. `undecided` is returned for what is too long or too complex to match.
 */
export function matchTemplate(written: string, uri: string, undecided = false): boolean {
  const template = decodeUnreserved(written);
  const fixed = template.indexOf('{');
  if (fixed === -1) return template === uri;
  // Most templates differ in their prefix.
  if (!uri.startsWith(template.slice(0, fixed))) return false;
  if (uri.length > MAX_URI_CHARACTERS || template.length > MAX_URI_CHARACTERS) return undecided;

  const steps = parse(template.slice(fixed));
  /** Position in the uri at which each state was last reached. */
  const reached = new Int32Array(steps.length + 1).fill(-1);
  let at = 0;
  let next: number[] = [];
  /** Adds a state and those reachable from it without consuming a character. */
  const reach = (from: number): void => {
    for (let state = from; reached[state] !== at; state++) {
      reached[state] = at;
      next.push(state);
      const step = steps[state];
      if (step?.kind !== 'any' || !step.optional) return;
    }
  };
  reach(0);
  let budget = MAX_STATES * (steps.length + uri.length);
  for (const character of uri.slice(fixed)) {
    const states = next;
    budget -= states.length;
    if (states.length === 0) return false;
    if (budget < 0) return undecided;
    next = [];
    at++;
    for (const state of states) {
      const step = steps[state];
      if (step?.kind === 'text' && step.character === character) reach(state + 1);
      else if (step?.kind === 'any' && (step.slash || character !== '/')) {
        reach(state);
        reach(state + 1);
      }
    }
  }
  return reached[steps.length] === at;
}

/**
 * Decodes percent-encoded characters except reserved ones, in which an encoded character differs from a plain one (RFC 3986, 2.2
 * and 6.2.2). A template's literal `café` expands to `caf%C3%A9` (RFC 6570, 3.1). What is too long to match is returned as it is.
 */
export function decodeUnreserved(text: string): string {
  if (text.length > MAX_URI_CHARACTERS || !text.includes('%')) return text;
  return text.replaceAll(/(?:%[\da-f]{2})+/gi, (run) => {
    const bytes = Buffer.from(run.replaceAll('%', ''), 'hex');
    return isUtf8(bytes) ? bytes.toString().replaceAll(RESERVED, percentEncode) : run.toUpperCase();
  });
}

/** Reserved characters, control characters, and those that would change a template. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are meant
const RESERVED = /[\u0000-\u001f\u007f:/?#[\]@!$&'()*+,;=%{}]/g;

function percentEncode(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}

/** Longer uris and templates do not match: checking them against thousands of templates would take too long. */
const MAX_URI_CHARACTERS = 8192;
/** Average number of states; ordinary templates need two or three. */
const MAX_STATES = 16;

/** `any` matches one or more characters, or none if it is optional. */
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
