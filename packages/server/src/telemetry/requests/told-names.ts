import { attributeText, cutName } from '../metrics/attribute-text.ts';
import type { Subject } from './request-observation.ts';

/** Longer ones are cut: what is told is for finding, not for keeping. */
const LONGEST_METHOD = 1_024;

/**
 * What is told of what a request is about. Its name may be one that an upstream has chosen, megabytes long: it is cut at
 * 256 characters, and is not a piece of the whole, which would be kept with it.
 */
export function toldSubject(subject: Subject): Subject {
  const { kind, name } = subject;
  return cutName(name).length === name.length ? subject : { kind, name: attributeText(name) };
}

/** What is told of the method of a message, which clients may have made up. */
export function toldMethod(method: string): string {
  return method.slice(0, LONGEST_METHOD);
}
