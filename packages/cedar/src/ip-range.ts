import { isIPv4, isIPv6 } from 'node:net';

/** An IP address, or a range of them. */
export class IpRange {
  readonly typeName = 'ipaddr';
  readonly isIpv4: boolean;
  readonly address: bigint;
  readonly prefix: number;

  constructor(isIpv4: boolean, address: bigint, prefix: number) {
    this.isIpv4 = isIpv4;
    this.address = address;
    this.prefix = prefix;
  }

  /** Equal values have the same text. The address counts, not the range. */
  get text(): string {
    return `ipaddr ${this.isIpv4 ? 4 : 6} ${this.address}/${this.prefix}`;
  }

  /** Parses an address with or without the length of a prefix. IPv4 addresses in IPv6 notation and zones are not allowed. */
  static parse(text: string): IpRange | undefined {
    if (text.length > MAX_LENGTH) return undefined;
    const [, address = '', length] = /^([^/]*)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
    const isV4 = isIPv4(address);
    if (!isV4 && (!isIPv6(address) || /[.%]/.test(address))) return undefined;
    const bits = isV4 ? 32 : 128;
    const prefix = length === undefined ? bits : Number(length);
    return prefix > bits ? undefined : new IpRange(isV4, isV4 ? bytes4(address) : groups6(address), prefix);
  }

  /** Returns whether all its addresses are in another range. */
  isInRange(range: IpRange): boolean {
    if (this.isIpv4 !== range.isIpv4 || this.prefix < range.prefix) return false;
    const shift = BigInt((this.isIpv4 ? 32 : 128) - range.prefix);
    return this.address >> shift === range.address >> shift;
  }

  /** Whether all its addresses are those of this machine. */
  get isLoopback(): boolean {
    return this.isInRange(this.isIpv4 ? LOOPBACK_4 : LOOPBACK_6);
  }

  /** Whether all its addresses are multicast addresses. */
  get isMulticast(): boolean {
    return this.isInRange(this.isIpv4 ? MULTICAST_4 : MULTICAST_6);
  }
}

/** That of the longest IPv6 address with a prefix. */
const MAX_LENGTH = 43;

function bytes4(address: string): bigint {
  return address.split('.').reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
}

function groups6(address: string): bigint {
  const [head = '', tail] = address.split('::');
  const groupsOf = (text = '') => (text === '' ? [] : text.split(':'));
  const [before, after] = [groupsOf(head), groupsOf(tail)];
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}

const LOOPBACK_4 = new IpRange(true, 0x7f000000n, 8);
const LOOPBACK_6 = new IpRange(false, 1n, 128);
const MULTICAST_4 = new IpRange(true, 0xe0000000n, 4);
const MULTICAST_6 = new IpRange(false, 0xffn << 120n, 8);
