/** Redaction of request data for logs, traces and metrics. */

import { detach, truncate } from '@sluice/protocol/text';

const MAX_LENGTH = 1_024;

/**
 * Returns the path of a request target as the client sent it. The query, and the part of an absolute target before its
 * path, are removed: both may contain credentials.
 */
export function loggablePath(target: string): string {
  const path = target.startsWith('/') ? target : target.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '');
  return path.slice(0, Math.min(endBefore(path, '?'), endBefore(path, '#'), MAX_LENGTH));
}

function endBefore(text: string, character: string): number {
  const at = text.indexOf(character);
  return at === -1 ? text.length : at;
}

/** Returns the uri of a resource without query, fragment, user and password. */
export function loggableUri(uri: string): string {
  const anonymous = uri.replace(/^([a-z][a-z\d+.-]*:\/\/)[^/?#]*@/i, '$1');
  return anonymous.replace(/[?#].*$/s, '').slice(0, MAX_LENGTH);
}

/** Returns the method of a message, truncated: clients may send any text. */
export function loggableMethod(method: string): string {
  return method.slice(0, MAX_LENGTH);
}

/** Registered tool or prompt that a request is about. */
export interface Subject {
  readonly kind: 'tool' | 'prompt';
  readonly name: string;
}

/** Maximum length of names. */
const MAX_NAME_LENGTH = 256;

/** Returns a subject with a name of at most 256 characters: upstreams may choose names of megabytes. */
export function boundedSubject(subject: Subject): Subject {
  const { kind, name } = subject;
  return name.length <= MAX_NAME_LENGTH ? subject : { kind, name: attributeText(name) };
}

/** Returns a name of at most 256 characters, most unchanged. */
export function boundedName(name: string): string {
  return name.length <= MAX_NAME_LENGTH ? name : truncate(name, MAX_NAME_LENGTH);
}

/**
 * Returns a name as the value of a stored attribute: bounded, well-formed, and a copy, since a substring would retain
 * the text that it was parsed from.
 */
export function attributeText(name: string): string {
  return detach(boundedName(name));
}
