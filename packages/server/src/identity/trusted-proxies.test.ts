import { describe, expect, it, test } from 'vitest';
import { TrustedProxies } from './trusted-proxies.ts';

const PROXIES = new TrustedProxies(['10.1.2.3/8', '127.0.0.1/32', '2001:db8:1::/48', '::1/128', 'fe80::/10']);

describe('a peer is trusted by its address', () => {
  it.each<[peer: string | undefined, expected: boolean]>([
    ['10.0.0.0', true],
    ['10.255.255.255', true],
    ['11.0.0.0', false],
    ['9.255.255.255', false],
    ['127.0.0.1', true],
    ['127.0.0.2', false],
    ['::ffff:10.0.0.1', true],
    ['::FFFF:0a00:0001', true],
    ['0:0:0:0:0:ffff:10.0.0.1', true],
    ['::ffff:11.0.0.1', false],
    // Not mapped, but compatible or translated addresses.
    ['::10.0.0.1', false],
    ['64:ff9b::10.0.0.1', false],
    ['2002:0a00:0001::', false],
    ['2001:db8:1::5', true],
    ['2001:0DB8:0001:ffff::5', true],
    ['2001:db8:2::5', false],
    ['::1', true],
    ['fe80::1', true],
    ['fe80::1%eth0', true],
    ['fec0::1%eth0', false],
    [undefined, false],
    ['', false],
    ['localhost', false],
    ['10.0.0.1:80', false],
    ['10.0.0.01', false],
    ['10.1', false],
    ['167772161', false],
    ['0x0a.0.0.1', false],
    [' 10.0.0.1', false],
    ['10.0.0.1\0', false],
    ['[::1]', false],
  ])('%s: %s', (peer, expected) => {
    expect(PROXIES.isTrusted(peer)).toBe(expected);
    // Cached.
    expect(PROXIES.isTrusted(peer)).toBe(expected);
  });
});

describe('a range has the addresses of its own family', () => {
  it.each<[range: string, peer: string, expected: boolean]>([
    ['::/0', '2001:db8::1', true],
    ['::/0', '192.0.2.1', false],
    ['::/0', '::ffff:192.0.2.1', false],
    ['0.0.0.0/0', '192.0.2.1', true],
    ['0.0.0.0/0', '::ffff:192.0.2.1', true],
    ['0.0.0.0/0', '2001:db8::1', false],
    ['::ffff:10.0.0.0/104', '10.9.9.9', true],
    ['::ffff:a00:0/104', '::ffff:10.9.9.9', true],
    ['::ffff:10.0.0.0/104', '11.0.0.1', false],
    ['::ffff:0:0/96', '192.0.2.1', true],
    ['::ffff:0:0/96', '::1', false],
    ['::ffff:0:0/64', '192.0.2.1', false],
    ['::ffff:0:0/64', '::1', true],
  ])('%s has %s: %s', (range, peer, expected) => {
    expect(new TrustedProxies([range]).isTrusted(peer)).toBe(expected);
  });
});

describe('the address of a client is the rightmost one that is no trusted proxy', () => {
  const client = '192.0.2.7';
  it.each<[peer: string | undefined, forwardedFor: string[], expected: string | undefined]>([
    [client, [], client],
    [undefined, ['192.0.2.9'], undefined],
    // An untrusted peer may claim anything.
    [client, ['192.0.2.9'], client],
    ['::ffff:192.0.2.7', ['192.0.2.9'], client],
    ['10.0.0.1', [], '10.0.0.1'],
    ['::ffff:10.0.0.1', [], '10.0.0.1'],
    ['10.0.0.1', [client], client],
    ['10.0.0.1', [`198.51.100.1, ${client}`], client],
    ['10.0.0.1', [`198.51.100.1, ${client}, 10.0.0.2,10.0.0.3`], client],
    ['10.0.0.1', ['198.51.100.1', client, '10.0.0.2'], client],
    ['10.0.0.1', [`198.51.100.1,${client}`, ' 10.0.0.3 ,\t10.0.0.2'], client],
    // All are trusted: the first one.
    ['10.0.0.1', ['10.0.0.3, 10.0.0.2'], '10.0.0.3'],
    // What is no address ends the walk.
    ['10.0.0.1', [`${client}, unknown`], '10.0.0.1'],
    ['10.0.0.1', [`${client}, unknown, 10.0.0.2`], '10.0.0.2'],
    ['10.0.0.1', [''], '10.0.0.1'],
    ['10.0.0.1', [','], '10.0.0.1'],
    ['10.0.0.1', [`${client},`], '10.0.0.1'],
    ['10.0.0.1', [`,${client}`], client],
    ['10.0.0.1', [',10.0.0.2'], '10.0.0.2'],
    ['10.0.0.1', [client, ''], '10.0.0.1'],
    ['10.0.0.1', [`${client}, 10.0.0.02`], '10.0.0.1'],
    ['10.0.0.1', [`${client}, _hidden`], '10.0.0.1'],
    ['10.0.0.1', [`${client}, 10.0.0.2; proto=https`], '10.0.0.1'],
    // Ports and brackets.
    ['10.0.0.1', [`${client}:1234`], client],
    ['10.0.0.1', [`${client}, 10.0.0.2:443`], client],
    ['10.0.0.1', ['2001:DB8:2:0::7'], '2001:db8:2::7'],
    ['10.0.0.1', ['[2001:db8:2::7]'], '2001:db8:2::7'],
    ['10.0.0.1', ['[2001:db8:2::7]:443, [2001:db8:1::1]'], '2001:db8:2::7'],
    ['10.0.0.1', ['::ffff:192.0.2.7'], client],
    ['10.0.0.1', ['[::ffff:192.0.2.7]:80, ::ffff:10.0.0.9'], client],
    ['10.0.0.1', [`${client}:x`], '10.0.0.1'],
    ['10.0.0.1', [`${client}:`], '10.0.0.1'],
    ['10.0.0.1', ['[2001:db8:2::7'], '10.0.0.1'],
    ['10.0.0.1', ['[2001:db8:2::7]443'], '10.0.0.1'],
    ['10.0.0.1', ['[client.example]:443'], '10.0.0.1'],
    ['fe80::1%eth0', ['2001:db8:2::7'], '2001:db8:2::7'],
  ])('%s forwards for %j: %s', (peer, forwardedFor, expected) => {
    expect(PROXIES.clientAddress(peer, forwardedFor)).toBe(expected);
  });
});

test('a client cannot make a request expensive with addresses of proxies', () => {
  const lines = Array.from({ length: 2_000 }, (_, n) => `10.1.${n >> 8}.${n & 255}`);
  expect(PROXIES.clientAddress('10.0.0.1', [lines.join(',')])).toBe('10.1.7.176');
  for (const text of [',', ' ', '[', '1', ':', '\t,'].map((part) => part.repeat(16_384 / part.length))) {
    expect(PROXIES.clientAddress('10.0.0.1', [text])).toBe('10.0.0.1');
  }
});

test('more addresses than are cached have the same results', () => {
  const own = new TrustedProxies(['10.0.0.0/24']);
  for (let n = 0; n < 3_000; n++) {
    expect(own.isTrusted(`10.0.${n >> 8}.${n & 255}`)).toBe(n < 256);
    expect(own.isTrusted('10.0.0.1')).toBe(true);
  }
});
