import { BlockList, isIP, SocketAddress } from 'node:net';
import { detach } from '@sluice/protocol/text';

/** An address, and whether it is that of a trusted proxy. */
interface Hop {
  /** IPv6 in its shortest form, without zone; IPv4 mapped to IPv6 as IPv4. */
  readonly address: string;
  readonly isTrusted: boolean;
}

/** Addresses that are cached. */
const MAX_CACHED = 1_000;
/** Longer texts are no addresses: IPv6 with the longest zone, brackets and port. */
const MAX_CHARACTERS = 80;
/** Trusted proxies between a client and the service. A client can put any number of their addresses before its own. */
const MAX_HOPS = 32;

/** Prefix of IPv4 addresses that are mapped to IPv6, and its length in bits. */
const MAPPED = '::ffff:';
const MAPPED_BITS = 96;

/** Address and port, as proxies write them: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`. */
const IN_BRACKETS = /^\[([^[\]]*)\](?::\d{1,5})?$/;
const IPV4_WITH_PORT = /^([\d.]+):\d{1,5}$/;

/** The peers whose identity headers are believed, by ranges of their addresses. */
export class TrustedProxies {
  // Node.js matches IPv4 addresses with ranges of IPv6 too: `::/0` would trust all of IPv4.
  readonly #ipv4 = new BlockList();
  readonly #ipv6 = new BlockList();
  readonly #hops = new Map<string, Hop>();

  /** `ranges`: valid CIDR ranges, such as `10.0.0.0/8`. */
  constructor(ranges: readonly string[]) {
    for (const range of ranges) {
      const [address = '', digits = ''] = range.split('/');
      const network = canonical(address);
      const bits = Number(digits);
      if (isIP(address) === 4) this.#ipv4.addSubnet(address, bits, 'ipv4');
      else if (isIP(network) === 6 || bits < MAPPED_BITS) this.#ipv6.addSubnet(address, bits, 'ipv6');
      else this.#ipv4.addSubnet(network, bits - MAPPED_BITS, 'ipv4');
    }
  }

  /** Whether identity headers of this peer are believed. `peer`: the address of the connection, undefined once it is closed. */
  isTrusted(peer: string | undefined): boolean {
    return peer !== undefined && (this.#hopAt(peer)?.isTrusted ?? false);
  }

  /**
   * Returns the address of the client: that of the peer or, if the peer is a trusted proxy, the rightmost address of X-Forwarded-For
   * that is none. Clients can write what is left of it. If all are trusted, or the next one is no address, it is the last one
   * before. `forwardedFor`: all lines of the header.
   */
  clientAddress(peer: string | undefined, forwardedFor: readonly string[]): string | undefined {
    let hop = peer === undefined ? undefined : this.#hopAt(peer);
    if (hop === undefined) return peer;
    let hops = 0;
    for (const line of forwardedFor.toReversed()) {
      for (let end = line.length; end >= 0; ) {
        if (!hop.isTrusted || hops++ === MAX_HOPS) return hop.address;
        const comma = end === 0 ? -1 : line.lastIndexOf(',', end - 1);
        const next = this.#hopAt(addressIn(line.slice(comma + 1, end)));
        if (next === undefined) return hop.address;
        hop = next;
        end = comma;
      }
    }
    return hop.address;
  }

  /** Undefined for what is no address. */
  #hopAt(text: string): Hop | undefined {
    const known = this.#hops.get(text);
    if (known) return known;
    if (text.length > MAX_CHARACTERS || isIP(text) === 0) return undefined;
    // The text may be part of a header, which it would retain.
    const address = detach(canonical(text));
    const isTrusted = isIP(address) === 4 ? this.#ipv4.check(address, 'ipv4') : this.#ipv6.check(address, 'ipv6');
    if (this.#hops.size >= MAX_CACHED) this.#hops.clear();
    const hop = { address, isTrusted };
    this.#hops.set(detach(text), hop);
    return hop;
  }
}

/** Returns the address in an element of X-Forwarded-For, without port and brackets. */
function addressIn(element: string): string {
  const text = element.trim();
  const [, address = text] = IN_BRACKETS.exec(text) ?? IPV4_WITH_PORT.exec(text) ?? [];
  return address;
}

/** Returns the {@link Hop.address} of a valid address. */
function canonical(address: string): string {
  if (isIP(address) === 4) return address;
  const shortest = new SocketAddress({ address, family: 'ipv6' }).address;
  const mapped = shortest.startsWith(MAPPED) ? shortest.slice(MAPPED.length) : '';
  return isIP(mapped) === 4 ? mapped : shortest;
}
