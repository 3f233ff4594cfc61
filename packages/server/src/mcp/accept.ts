/**
 * Whether a client reads event streams, by its `Accept`: one that names JSON and not event streams gets its answer alone;
 * one that names neither reads both.
 */
export function readsStreams(accept: string | undefined): boolean {
  return accept === undefined || accept.includes('event-stream') || !accept.includes('application/json');
}

/** Whether a client reads JSON answers, by its `Accept`: one that names event streams alone does not. */
export function readsJson(accept: string | undefined): boolean {
  return accept === undefined || /application\/(json|\*)|\*\/\*/.test(accept) || !accept.includes('event-stream');
}
