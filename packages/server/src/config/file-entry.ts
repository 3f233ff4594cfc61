import type { z } from 'zod';
import { ConfigError } from './config-error.ts';
import { quote } from './setting.ts';
import type { KeyPath, YamlFile } from './yaml-file.ts';

/** Notes a warning of what stands at a place in the file. */
export type Warn = (at: KeyPath, warning: string) => void;

/** The list under a key; an absent or empty key is an empty list. Throws {@link ConfigError} for anything else. */
export function listAt(file: YamlFile, key: string): readonly unknown[] {
  const value = file.content[key] ?? [];
  if (!Array.isArray(value)) throw new ConfigError(`${file.where([key])}: ${key}: is not a list`);
  return value;
}

/** Members that mean nothing are most likely mistyped ones that mean something. */
export function warnOfStrangers(item: unknown, schema: z.ZodObject, path: KeyPath, warn: Warn): void {
  if (typeof item !== 'object' || item === null) return;
  const known = Object.keys(schema.shape);
  for (const member of Object.keys(item)) {
    if (known.includes(member)) continue;
    warn([...path, member], `unknown member ${quote(member)} is ignored; known members: ${known.join(', ')}`);
  }
}

/** What is missing or of the wrong type, for someone who writes YAML; every other rule has its words in the contract. */
export const wrongType: z.core.$ZodErrorMap = ({ code, input, expected }) => {
  if (code !== 'invalid_type') return undefined;
  if (input === undefined) return 'is missing';
  const article = /^[aeiou]/.test(expected) ? 'an' : 'a';
  // A name such as 007 or true is a number or a truth value to YAML.
  const hint = expected === 'string' && typeof input !== 'object' ? '; quote it' : '';
  return `is not ${article} ${expected}${hint}`;
};

/** The first thing that is wrong, and where below the value. It never repeats the value. */
export function firstProblem(error: z.ZodError): { at: KeyPath; problem: string } {
  const [issue] = error.issues;
  if (issue === undefined) return { at: [], problem: 'is not valid' };
  const member = issue.path.map(String).join('.');
  return { at: issue.path, problem: member === '' ? issue.message : `${member} ${issue.message}` };
}
