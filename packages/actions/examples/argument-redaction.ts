import { pass, warn } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { jsonAnswer, member } from './json-answer.ts';

/** What gives itself away by its form. No form takes long for any text: agents write what is looked at. */
const FORMS: readonly (readonly [kind: string, form: RegExp, fits?: (match: string) => boolean])[] = [
  ['private key', /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----/],
  ['access token', /\b(?:ghp|gho|ghs|ghr|github_pat|glpat|xox[abprs]|sk|pk_live|sk_live)[-_][A-Za-z0-9_-]{16,}/],
  ['access key', /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/],
  ['JSON web token', /\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/],
  ['password in an address', /:\/\/[^\s/:@]{1,100}:[^\s/@]{1,100}@/],
  ['payment card', /\b\d(?:[ -]?\d){12,18}\b/, isCardNumber],
  ['bank account', /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b/, isIban],
  ['email address', /[\w+-]@[\w-]{1,63}\.[a-z]{2}/i],
];

/** Arguments whose name says what is in them. */
const TELLING_NAME = /pass(?:word|phrase|wd)|secret|api[-_]?key|access[-_]?token|credential|private[-_]?key/i;

/** So many characters are looked at, of all arguments together: the action has 1000 ms. */
const MOST_LOOKED_AT = 50_000;

/** So many arguments are named. */
const MOST_NAMED = 10;

/**
 * A warning when the arguments of a call look like secrets or personal data: by their form, by their name, or because the
 * LLM says so. The call goes on. The warning is logged, and filters behind this one find it in the request's metadata as
 * `service.evaluator.argument-redaction.warning`, so that they can keep the call's arguments out of what they write.
 *
 * The warning names arguments and kinds (`to: bank account`), never a value: not even a part of it, and no name of an
 * argument that looks like a secret itself. An action cannot change arguments.
 *
 * The LLM answers `{"sensitive": ["name of an argument", …]}`. Only names that the call has are believed. An answer that
 * is something else costs only what the LLM would have found beyond the forms above.
 */
export function evaluate(ctx: EvaluationContext): void {
  const named = new Set(sensitiveNames(ctx.llmResult));
  let left = MOST_LOOKED_AT;
  const findings = ctx.arguments.flatMap(([name, value], at) => {
    const kinds = new Set(kindsOf(value.slice(0, left)));
    // Who could hide something behind a long text would.
    if (value.length > left) kinds.add('too long to be looked at');
    left = Math.max(0, left - value.length);
    if (TELLING_NAME.test(name)) kinds.add('secret by its name');
    if (named.has(name)) kinds.add('sensitive to the LLM');
    return kinds.size === 0 ? [] : [`${label(name, at)}: ${[...kinds].join(', ')}`];
  });
  if (findings.length === 0) return pass();
  const more = findings.length > MOST_NAMED ? `; and ${findings.length - MOST_NAMED} more` : '';
  warn(`arguments look sensitive: ${findings.slice(0, MOST_NAMED).join('; ')}${more}`);
}

function kindsOf(text: string): string[] {
  return FORMS.filter(([, form, fits]) => {
    const all = text.matchAll(new RegExp(form, `${form.flags}g`));
    return all.some(([match]) => fits === undefined || fits(match));
  }).map(([kind]) => kind);
}

/** A name that is a name; what may be a value in the place of one is counted. */
function label(name: string, at: number): string {
  return /^[A-Za-z_][\w.-]{0,39}$/.test(name) && kindsOf(name).length === 0 ? name : `argument ${at + 1}`;
}

function sensitiveNames(text: string): string[] {
  const list = member(jsonAnswer(text), 'sensitive');
  return Array.isArray(list) ? list.filter((name) => typeof name === 'string') : [];
}

/** The check digit of cards (Luhn). */
function isCardNumber(text: string): boolean {
  const digits = [...text.replace(/\D/g, '')].map(Number).reverse();
  const doubled = digits.map((digit, at) => (at % 2 === 0 ? digit : digit * 2 - (digit > 4 ? 9 : 0)));
  return doubled.reduce((sum, digit) => sum + digit, 0) % 10 === 0;
}

/** The check digits of bank accounts (ISO 13616). */
function isIban(text: string): boolean {
  const plain = text.replaceAll(' ', '');
  if (plain.length < 15 || plain.length > 34) return false;
  let rest = 0;
  for (const character of plain.slice(4) + plain.slice(0, 4)) {
    for (const digit of Number.parseInt(character, 36).toString()) rest = (rest * 10 + Number(digit)) % 97;
  }
  return rest === 1;
}
