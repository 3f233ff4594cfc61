import { Failure } from '../failure.ts';

/**
 * A token as a header can carry it, without the blanks around it. Throws {@link Failure} for any other, without
 * repeating it; what sends the request would repeat it in its own message.
 */
export function parseAccessToken(text: string, source: string): string {
  const token = text.trim();
  if (token === '') throw new Failure(`${source}: is empty`);
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Failure(`${source}: has characters that no access token has`);
  return token;
}

/** Enough of a token to recognise it, and nothing that it could be used by. */
export function maskToken(token: string): string {
  return token.length < 32 ? '********' : `${token.slice(0, 4)}********${token.slice(-4)}`;
}
