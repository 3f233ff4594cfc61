import { hash, randomBytes } from 'node:crypto';

/** Beginning of all keys of service accounts, by which they differ from other bearer tokens. */
export const SERVICE_KEY_PREFIX = 'slk_';

/** 32 bytes in base64url. */
const SERVICE_KEY = new RegExp(`^${SERVICE_KEY_PREFIX}[A-Za-z0-9_-]{43}$`);

/** Returns a new key of a service account. */
export function createServiceKey(): string {
  return SERVICE_KEY_PREFIX + randomBytes(32).toString('base64url');
}

/** Returns the SHA-256 of a key, as the settings have it (`identity.keys`); undefined for a text that cannot be a key. */
export function hashServiceKey(key: string): string | undefined {
  return SERVICE_KEY.test(key) ? hash('sha256', key, 'hex') : undefined;
}
