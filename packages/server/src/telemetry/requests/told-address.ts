/** Longer ones are cut: what is told is for finding, not for keeping. */
const LONGEST = 1_024;

/**
 * What is told of a request's target: its path as the client sent it. Never its query, nor what stands before the path of
 * one that is absolute: either may hold credentials.
 */
export function toldPath(target: string): string {
  return beforeQuery(target.startsWith('/') ? target : target.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, ''));
}

/** What is told of the uri of a resource: neither its query nor its user and password. */
export function toldUri(uri: string): string {
  return beforeQuery(uri.replace(/^([a-z][a-z\d+.-]*:\/\/)[^/?#]*@/i, '$1'));
}

function beforeQuery(text: string): string {
  const end = text.search(/[?#]/);
  return (end === -1 ? text : text.slice(0, end)).slice(0, LONGEST);
}
