import { describe, expect, it } from 'vitest';
import { CLIENT_METHODS, isRelayable, KNOWN_METHODS } from './methods.ts';

const relayable = (method: string, ...declared: readonly string[]) =>
  isRelayable(method, (extension) => declared.includes(extension));

describe('a method that is passed on', () => {
  it.each(['acme/do', 'toolset/list', 'tool/call', 'skills/list', 'x', '', '/', 'acme/tools/call'])(
    'is one outside of the protocol: %j',
    (method) => expect(relayable(method)).toBe(true),
  );

  it('is one of a declared extension in a segment of its own', () => {
    expect(relayable('skills/list', 'io.modelcontextprotocol/skills')).toBe(true);
  });

  it.each(['tasks/get', 'tasks/list', 'tasks/result', 'tasks/cancel', 'tasks/update'])(
    'is none of tasks, whose ids are ours: %s',
    (method) => expect(relayable(method, 'io.modelcontextprotocol/tasks')).toBe(false),
  );

  it('is none of the protocol', () => {
    const others = [...KNOWN_METHODS].filter((method) => !/^skills\//.test(method));
    expect(others.filter((method) => relayable(method))).toEqual([]);
    expect(CLIENT_METHODS.has('tools/call')).toBe(true);
    expect(CLIENT_METHODS.has('sampling/createMessage')).toBe(false);
  });

  it('has at most 256 characters', () => {
    expect(relayable('a'.repeat(256))).toBe(true);
    expect(relayable('a'.repeat(257))).toBe(false);
  });
});

it.each([
  ['an empty segment', 'tools//call'],
  ['a leading slash', '/tools/call'],
  ['another last segment', 'tools/calls'],
  ['no further segment', 'tools'],
  ['other case', 'ToOlS/call'],
  ['a blank', ' tools/call'],
  ['a line break', 'tools\n/call'],
  ['U+0000', 'tools\0/call'],
  ['a zero-width space', 'to\u200bols/call'],
  ['a soft hyphen', 'to\u00adols/call'],
  ['a byte order mark', '\ufefftools/call'],
  ['a bidirectional control', '\u202etools/call'],
  ['a variation selector', 'tools\ufe0f/call'],
  ['a tag character', 'tools\u{e0061}/call'],
  ['a Hangul filler', 'tools\u3164/call'],
  ['full-width letters', 'ｔｏｏｌｓ/call'],
  ['a full-width slash', 'tools／call'],
  ['mathematical letters', '𝐭𝐨𝐨𝐥𝐬/call'],
  ['a long s', 'toolſ/call'],
  ['a dotless i', 'pıng'],
  ['a Kelvin sign', 'tas\u212as/get'],
  ['another task method', 'tasks/delete'],
  ['a notification as a request', 'Notifications/x'],
])('a method with %s is not passed on', (_, method) => {
  expect(relayable(method)).toBe(false);
});
