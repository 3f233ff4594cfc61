import type { ApiResponse } from '../responses.ts';

/** Headers of the pages of a sign-in: their addresses have what no other page, and no cache, may get. */
const PRIVATE = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' };
/** They have no scripts, styles or images. */
const STATIC = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
};

/** Leads the browser to another page. */
export function redirectTo(location: string, cookies: readonly string[]): ApiResponse {
  return { status: 302, headers: { ...PRIVATE, location }, cookies, body: '' };
}

/** Returns a page that says why a sign-in has failed. `reason` has no part of the request. */
export function failurePage(status: 400 | 503, reason: string, cookies: readonly string[] = []): ApiResponse {
  const title = 'Sign-in failed';
  const body = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><p>${reason}.</p>`;
  const headers = { ...PRIVATE, ...STATIC, 'content-type': 'text/html; charset=utf-8' };
  return { status, headers, cookies, body };
}
