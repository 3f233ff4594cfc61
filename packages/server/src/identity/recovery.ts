import { hashServiceKey } from '@sluice/contract/service-key';
import { type Authenticated, authenticated, type ReceivedHead } from './authenticator.ts';
import { RECOVERY_SOURCE } from './claims.ts';
import { ANONYMOUS, type Principal, withKey } from './principal.ts';
import { RECOVERY_GROUP } from './roles.ts';
import { TrustedProxies } from './trusted-proxies.ts';

/** How long a recovery key counts. */
export const RECOVERY_MS = 15 * 60 * 1_000;

/** Who has made a key on the machine of the service: an administrator, whatever the settings say. */
const RECOVERY: Principal = withKey({
  ...ANONYMOUS,
  kind: 'service_account',
  id: RECOVERY_GROUP,
  groups: [RECOVERY_GROUP],
  source: RECOVERY_SOURCE,
});

/** What {@link RecoveryKeys} needs. */
export interface RecoveryParts {
  /** Returns when the stored key with this SHA-256 ends, in epoch milliseconds; undefined if there is none. */
  readonly find: (sha256: string) => Promise<number | undefined>;
  /** A key is used for the first time in this process. */
  readonly onUse: (address: string | undefined) => void;
}

const LOOPBACK = new TrustedProxies(['127.0.0.0/8', '::1/128']);
/** Headers that proxies add: what passes one may come from anywhere. */
const FORWARDING =
  /^(?:forwarded|via|x[-_](?:forwarded|original|envoy|amzn)[-_].*|(?:x[-_])?(?:real|client|true[-_]client)[-_]ip|cf[-_].*)$/;
const IS_BEARER = /^bearer +(\S+)$/i;

/**
 * Keys with which an administrator who is locked out changes the settings. They count for requests from this machine that have passed
 * no proxy. Whoever can make one can also read and write what the service stores.
 */
export class RecoveryKeys {
  readonly #parts: RecoveryParts;
  readonly #used = new Set<string>();

  constructor(parts: RecoveryParts) {
    this.#parts = parts;
  }

  /** Returns a promise for a request with what may be a recovery key: of undefined, if it is none. `now`: epoch milliseconds. */
  authenticate(head: ReceivedHead, now: () => number): Promise<Authenticated | undefined> | undefined {
    const { headers, credentials } = head;
    const [line, ...others] = credentials?.get('authorization') ?? [headers.authorization];
    const [, text = ''] = IS_BEARER.exec(line ?? '') ?? [];
    const hash = hashServiceKey(text);
    if (hash === undefined || others.length > 0 || !isLocal(head)) return undefined;
    return this.#parts.find(hash).then((end) => {
      if (end === undefined || end <= now() || end > now() + RECOVERY_MS) return undefined;
      if (!this.#used.has(hash)) this.#parts.onUse(head.address);
      this.#used.add(hash);
      return authenticated(RECOVERY, { kind: 'recovery' }, end);
    });
  }
}

/** Whether a request comes from this machine, and has passed no proxy that says so. */
function isLocal({ peer, address, headers, credentials }: ReceivedHead): boolean {
  const names = [...Object.keys(headers), ...(credentials?.keys() ?? [])];
  const isForwarded = names.some((name) => FORWARDING.test(name));
  return !isForwarded && LOOPBACK.isTrusted(peer) && LOOPBACK.isTrusted(address);
}
