import { SECURITY_HEADERS } from '../admin-console.ts';
import type { ApiResponse } from '../responses.ts';

/** Headers of responses that lead a browser on: their addresses have what only one page may see. */
const PRIVATE = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' };

/** Returns a page that says why a sign-in is not possible, in place of a page of the console. `reason` is a constant text. */
export function signInFailed(status: 400 | 503, reason: string): ApiResponse {
  const title = 'Sign-in failed';
  const body = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><p>${reason}.</p>`;
  return { status, headers: { ...SECURITY_HEADERS, ...PRIVATE, 'content-type': 'text/html; charset=utf-8' }, body };
}
