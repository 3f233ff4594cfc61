import { isUtf8 } from 'node:buffer';
import { findMemberProblem } from '@sluice/protocol/json/duplicates';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type Invalid, invalid } from './claims.ts';

/** A token whose signature is not verified: nothing that it says is proven. */
export interface ParsedToken {
  /** Header, claims and signature in base64url, separated by dots. */
  readonly text: string;
  readonly algorithm: string;
  /** Id of the key, if the header has one. */
  readonly keyId: string | undefined;
  /** Type in the header, in lower case. */
  readonly type: string | undefined;
  readonly issuer: string;
  readonly claims: JsonObject;
}

/** Longest token in characters. */
const MAX_TOKEN = 16 * 1024;
const SIGNED = /^([\w-]+)\.([\w-]+)\.([\w-]*)$/;
const ENCRYPTED = /^[\w-]*(?:\.[\w-]*){4}$/;

/** Headers that bring a key or a place to fetch one from: whoever makes the token would choose how it is verified. */
const KEY_HEADERS = ['jwk', 'jku', 'x5u', 'x5c'] as const;

const TOO_LONG = invalid(`the token has more than ${MAX_TOKEN} bytes`);
const IS_ENCRYPTED = invalid('the token is encrypted');
const NOT_SIGNED = invalid('the token is not a signed JWT');
const NO_HEADER = invalid('the header of the token is not a JSON object');
const NO_CLAIMS = invalid('the claims of the token are not a JSON object');
const REPEATED = invalid('the token has a member twice');
const OWN_KEY = invalid('the header of the token brings a key');
const EXTENDED = invalid('the header of the token has critical extensions');
const NO_ALGORITHM = invalid('the token does not name its algorithm');
const NO_KEY_ID = invalid('the id of the key is not a text');
const NO_ISSUER = invalid('the token does not name its issuer');

/** Parses a token (RFC 7515, RFC 7519). What could make another reader see another token, or another key, is invalid. */
export function parseToken(text: string): ParsedToken | Invalid {
  if (text.length > MAX_TOKEN) return TOO_LONG;
  const [, first, second] = SIGNED.exec(text) ?? [];
  if (first === undefined || second === undefined) return ENCRYPTED.test(text) ? IS_ENCRYPTED : NOT_SIGNED;
  const header = parseObject(first);
  if (header === undefined) return NO_HEADER;
  if (header === 'repeated') return REPEATED;
  if (KEY_HEADERS.some((name) => Object.hasOwn(header, name))) return OWN_KEY;
  if (Object.hasOwn(header, 'crit')) return EXTENDED;
  const { alg, kid, typ } = header;
  if (typeof alg !== 'string') return NO_ALGORITHM;
  if (kid !== undefined && typeof kid !== 'string') return NO_KEY_ID;
  if (typ !== undefined && typeof typ !== 'string') return NO_ACCESS_TOKEN;
  const claims = parseObject(second);
  if (claims === undefined) return NO_CLAIMS;
  if (claims === 'repeated') return REPEATED;
  const { iss } = claims;
  if (typeof iss !== 'string') return NO_ISSUER;
  return { text, algorithm: alg, keyId: kid, type: typ?.toLowerCase(), issuer: iss, claims };
}

function parseObject(encoded: string): JsonObject | 'repeated' | undefined {
  const bytes = Buffer.from(encoded, 'base64url');
  const text = isUtf8(bytes) ? bytes.toString() : '';
  const value = tryParseJson(text);
  if (!isJsonObject(value)) return undefined;
  // The usual way to write it, which has each member once. The search takes five times as long.
  if (JSON.stringify(value) === text) return value;
  const search = findMemberProblem(text, 0, text.length, MAX_TOKEN);
  let step = search.next();
  while (!step.done) step = search.next();
  return step.value ? 'repeated' : value;
}

/** Tolerance between the clocks of an issuer and of this machine. */
const LEEWAY_S = 60;

const NO_EXPIRY = invalid('the token has no time of expiry');
const EXPIRED = invalid('the token has expired');
const NOT_YET = invalid('the token is not valid yet');
const TOO_LASTING = invalid('the token is valid for longer than max_lifetime_hours');

/** Returns what is wrong with the dates of a token, and otherwise the time in milliseconds from which on it is not accepted. */
export function checkDates({ exp, iat, nbf }: JsonObject, maxLifetimeHours: number, now: number): number | Invalid {
  if (typeof exp !== 'number') return NO_EXPIRY;
  const seconds = now / 1_000;
  const end = exp + LEEWAY_S;
  if (seconds >= end) return EXPIRED;
  for (const start of [nbf, iat]) {
    if (start !== undefined && (typeof start !== 'number' || start > seconds + LEEWAY_S)) return NOT_YET;
  }
  const lifetime = exp - (typeof iat === 'number' ? iat : seconds);
  return lifetime > maxLifetimeHours * 3_600 ? TOO_LASTING : end * 1_000;
}

const ACCESS_TOKEN_TYPES: readonly (string | undefined)[] = ['at+jwt', 'application/at+jwt'];
/** Claims of ID tokens, refresh tokens and logout tokens. */
const OTHER_CLAIMS = ['nonce', 'at_hash', 'c_hash', 's_hash', 'events'] as const;

const NO_ACCESS_TOKEN = invalid('the token is not an access token');
const BOUND = invalid('the token is bound to a key, whose possession is not verified');

/** Returns why a token cannot be used as a bearer token (RFC 9068, RFC 6750); undefined if it can. */
export function accessTokenProblem({ type, claims }: ParsedToken): Invalid | undefined {
  const isTyped = ACCESS_TOKEN_TYPES.includes(type);
  if (!isTyped && type !== undefined && type !== 'jwt') return NO_ACCESS_TOKEN;
  if (claims.typ !== undefined && claims.typ !== 'Bearer') return NO_ACCESS_TOKEN;
  const isOther = !isTyped && claims.typ === undefined && OTHER_CLAIMS.some((name) => Object.hasOwn(claims, name));
  if (isOther) return NO_ACCESS_TOKEN;
  return Object.hasOwn(claims, 'cnf') ? BOUND : undefined;
}

/** What the ID token of a sign-in must have. */
export interface SignInFacts {
  readonly clientId: string;
  /** Undefined for the token of a refresh, which need not have any. */
  readonly nonce: string | undefined;
}

const NO_ID_TOKEN = invalid('the token is not an ID token');
const OTHER_CLIENT = invalid('the ID token is for another client');
const OTHER_SIGN_IN = invalid('the ID token is for another sign-in');

/** Returns why a token is not the ID token of a sign-in (OpenID Connect Core 3.1.3.7); undefined if it is. */
export function idTokenProblem({ type, claims }: ParsedToken, { clientId, nonce }: SignInFacts): Invalid | undefined {
  const isTyped = claims.typ === undefined || claims.typ === 'ID';
  if (!isTyped || (type !== undefined && type !== 'jwt')) return NO_ID_TOKEN;
  const audiences = audiencesOf(claims);
  const { azp } = claims;
  if (!audiences.includes(clientId) || (azp === undefined ? audiences.length > 1 : azp !== clientId))
    return OTHER_CLIENT;
  return nonce === undefined || claims.nonce === nonce ? undefined : OTHER_SIGN_IN;
}

/** Returns the audiences that a token names; none if it names them in an invalid way. */
export function audiencesOf({ aud }: JsonObject): readonly string[] {
  const values = Array.isArray(aud) ? aud : [aud];
  return values.filter((value) => typeof value === 'string');
}
