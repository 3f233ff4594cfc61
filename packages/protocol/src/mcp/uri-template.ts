import { isUtf8 } from 'node:buffer';

/** What matching one uri with all templates may cost. */
export class MatchingBudget {
  /** States that may still be simulated. */
  states = 500_000;
  /** The answer for what is too long, too complex or not matched any more. */
  readonly undecided: boolean;

  constructor(undecided = false) {
    this.undecided = undecided;
  }
}

/**
 * True when a uri, as {@link decodeUnreserved} returns it, matches a template: `{var}` matches one path segment, `{+var}` any
 * rest. Other operators of RFC 6570 match everything that they can expand to.
 *
 * Templates come from upstreams and uris from clients, so this is not a regular expression: it simulates a nondeterministic
 * automaton in one pass over the uri. The budget limits the time for thousands of templates together.
 */
export function matchTemplate(written: string, uri: string, budget = new MatchingBudget()): boolean {
  if (budget.states < 0) return budget.undecided;
  budget.states--;
  const isEncoded = written.includes('%');
  if (!isEncoded && differsAtEnds(written, uri)) return false;
  budget.states -= SETUP_STATES + (written.length >> (isEncoded ? 0 : 4));
  const template = decodeUnreserved(written);
  const fixed = template.indexOf('{');
  if (fixed === -1) return template === uri;
  if (!uri.startsWith(template.slice(0, fixed))) return false;
  if (uri.length > MAX_URI_CHARACTERS || template.length > MAX_URI_CHARACTERS) return budget.undecided;
  if (!uri.endsWith(template.slice(template.lastIndexOf('}') + 1))) return false;
  return AUTOMATON.matches(template, uri, budget);
}

/** Whether a template cannot match, as most can not: it has another text before its first expression, or another last character. */
function differsAtEnds(template: string, uri: string): boolean {
  let at = 0;
  while (at < MAX_COMPARED && template.charCodeAt(at) === uri.charCodeAt(at) && template.charCodeAt(at) !== OPEN) at++;
  if (at < MAX_COMPARED && at < template.length && template.charCodeAt(at) !== OPEN) return true;
  if (template.length > MAX_URI_CHARACTERS || uri.length > MAX_URI_CHARACTERS) return false;
  const last = template.charCodeAt(template.length - 1);
  return last !== CLOSE && last !== uri.charCodeAt(uri.length - 1);
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

const [OPEN, CLOSE, SLASH] = [0x7b, 0x7d, 0x2f];
/** Characters that are compared one by one. */
const MAX_COMPARED = 64;
/** What preparing a template costs, in states. */
const SETUP_STATES = 4;

/** Longer uris and templates do not match: checking them against thousands of templates would take too long. */
const MAX_URI_CHARACTERS = 8192;
/** Average number of states; ordinary templates need two or three. */
const MAX_STATES = 16;

/** Steps that match one or more characters; optional ones also none, and others than segments also slashes. */
const [SEGMENT, REST, OPTIONAL_SEGMENT, OPTIONAL_REST] = [-1, -2, -3, -4];
/** Step of the last state: no character. */
const END = 0x11_00_00;

/** Matches one template at a time, in memory that is allocated once. */
class Automaton {
  /** The steps of the template from its first expression on: code points, or one of the constants. */
  readonly #steps = new Int32Array(MAX_URI_CHARACTERS + 1);
  #length = 0;
  /** Position in the uri at which each state was last reached. */
  readonly #reached = new Int32Array(MAX_URI_CHARACTERS + 1);
  #states = new Uint16Array(MAX_URI_CHARACTERS + 1);
  #next = new Uint16Array(MAX_URI_CHARACTERS + 1);
  #count = 0;

  /** Neither text is too long, and the uri begins as the template does. */
  matches(template: string, uri: string, budget: MatchingBudget): boolean {
    const fixed = template.indexOf('{');
    this.#parse(template, fixed);
    let allowed = Math.min(MAX_STATES * (this.#length + uri.length), budget.states);
    budget.states -= allowed + (this.#length >> 2);
    this.#reached.fill(-1, 0, this.#length + 1);
    this.#count = 0;
    this.#reach(0, fixed);
    let at = fixed;
    while (at < uri.length && this.#count > 0) {
      allowed -= this.#count;
      if (allowed < 0) return budget.undecided;
      const code = uri.codePointAt(at) ?? 0;
      at += code > 0xffff ? 2 : 1;
      this.#advance(code, at);
    }
    budget.states += allowed;
    return this.#reached[this.#length] === uri.length;
  }

  #advance(code: number, at: number): void {
    const [states, count] = [this.#next, this.#count];
    this.#next = this.#states;
    this.#states = states;
    this.#count = 0;
    for (let index = 0; index < count; index++) {
      const state = states[index] ?? 0;
      const step = this.#steps[state] ?? END;
      if (step === code) this.#reach(state + 1, at);
      else if (step < 0 && (code !== SLASH || step === REST || step === OPTIONAL_REST)) {
        this.#reach(state, at);
        this.#reach(state + 1, at);
      }
    }
  }

  /** Adds a state and those reachable from it without consuming a character. */
  #reach(from: number, at: number): void {
    for (let state = from; this.#reached[state] !== at; state++) {
      this.#reached[state] = at;
      this.#next[this.#count++] = state;
      if ((this.#steps[state] ?? END) > OPTIONAL_SEGMENT) return;
    }
  }

  #parse(template: string, from: number): void {
    this.#length = 0;
    let at = from;
    while (at < template.length) {
      const close = template.codePointAt(at) === OPEN ? template.indexOf('}', at) : -1;
      const step = close === -1 ? (template.codePointAt(at) ?? END) : expand(template[at + 1] ?? '');
      this.#steps[this.#length++] = step;
      at = close === -1 ? at + (step > 0xffff ? 2 : 1) : close + 1;
    }
    this.#steps[this.#length] = END;
  }
}

/** Returns the step of an expression that begins with this character. */
function expand(operator: string): number {
  if (operator === '+') return REST;
  if ('#?&/'.includes(operator) && operator) return OPTIONAL_REST;
  return operator === '.' || operator === ';' ? OPTIONAL_SEGMENT : SEGMENT;
}

const AUTOMATON = new Automaton();
