import { pass, warn } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { member, parseJsonOutput } from './json-output.ts';

/** Patterns of sensitive values. They run in linear time, because agents control the input. */
const PATTERNS: readonly (readonly [kind: string, pattern: RegExp, isValid?: (match: string) => boolean])[] = [
  ['private key', /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----/],
  ['access token', /\b(?:ghp|gho|ghs|ghr|github_pat|glpat|xox[abprs]|sk|pk_live|sk_live)[-_][A-Za-z0-9_-]{16,}/],
  ['access key', /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/],
  ['JSON web token', /\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/],
  ['password in a URL', /:\/\/[^\s/:@]{1,100}:[^\s/@]{1,100}@/],
  ['payment card', /\b\d(?:[ -]?\d){12,18}\b/, isCardNumber],
  ['bank account', /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b/, isIban],
  ['email address', /[\w+-]@[\w-]{1,63}\.[a-z]{2}/i],
];

/** Argument names that suggest a secret. */
const SENSITIVE_NAME = /pass(?:word|phrase|wd)|secret|api[-_]?key|access[-_]?token|credential|private[-_]?key/i;

/** Maximum number of inspected characters in all arguments, to stay within 1000 ms. */
const MAX_INSPECTED = 50_000;

/** Maximum number of reported arguments. */
const MAX_REPORTED = 10;

/**
 * Warns if arguments of a tool call look like secrets or personal data: by pattern, by name, or according to the LLM. The
 * call is passed on. The warning is logged and set as the metadata `service.evaluator.argument-redaction.warning`, so that
 * later filters can redact the arguments.
 *
 * The warning contains argument names and kinds (`to: bank account`), but no part of a value, and no argument name that
 * looks like a secret. An action cannot change arguments.
 *
 * Expected LLM output: `{"sensitive": ["name of an argument", …]}`. Names that are not arguments of the call are ignored,
 * and so is any other output.
 */
export function evaluate(ctx: EvaluationContext): void {
  const flagged = new Set(sensitiveNames(ctx.llmResult));
  let remaining = MAX_INSPECTED;
  const findings = ctx.arguments.flatMap(([name, value], at) => {
    const kinds = new Set(kindsOf(value.slice(0, remaining)));
    // A long value could hide a secret.
    if (value.length > remaining) kinds.add('too long to inspect');
    remaining = Math.max(0, remaining - value.length);
    if (SENSITIVE_NAME.test(name)) kinds.add('sensitive name');
    if (flagged.has(name)) kinds.add('flagged by the LLM');
    return kinds.size === 0 ? [] : [`${label(name, at)}: ${[...kinds].join(', ')}`];
  });
  if (findings.length === 0) return pass();
  const more = findings.length > MAX_REPORTED ? `; and ${findings.length - MAX_REPORTED} more` : '';
  warn(`arguments look sensitive: ${findings.slice(0, MAX_REPORTED).join('; ')}${more}`);
}

function kindsOf(text: string): string[] {
  return PATTERNS.filter(([, pattern, isValid]) => {
    const matches = text.matchAll(new RegExp(pattern, `${pattern.flags}g`));
    return matches.some(([match]) => isValid === undefined || isValid(match));
  }).map(([kind]) => kind);
}

/** Returns an argument's name, or its position if the name might be sensitive. */
function label(name: string, at: number): string {
  return /^[A-Za-z_][\w.-]{0,39}$/.test(name) && kindsOf(name).length === 0 ? name : `argument ${at + 1}`;
}

function sensitiveNames(text: string): string[] {
  const list = member(parseJsonOutput(text), 'sensitive');
  return Array.isArray(list) ? list.filter((name) => typeof name === 'string') : [];
}

/** Validates the check digit of a payment card (Luhn). */
function isCardNumber(text: string): boolean {
  const digits = [...text.replace(/\D/g, '')].map(Number).reverse();
  const doubled = digits.map((digit, at) => (at % 2 === 0 ? digit : digit * 2 - (digit > 4 ? 9 : 0)));
  return doubled.reduce((sum, digit) => sum + digit, 0) % 10 === 0;
}

/** Validates the check digits of a bank account (ISO 13616). */
function isIban(text: string): boolean {
  const plain = text.replaceAll(' ', '');
  if (plain.length < 15 || plain.length > 34) return false;
  let rest = 0;
  for (const character of plain.slice(4) + plain.slice(0, 4)) {
    for (const digit of Number.parseInt(character, 36).toString()) rest = (rest * 10 + Number(digit)) % 97;
  }
  return rest === 1;
}
