import { describe, expect, it } from 'vitest';
import { parseLossless } from '../json/parse.ts';
import { acceptsServerRequest, supportsServerRequests, translatedCapabilities } from './capabilities.ts';

describe('translatedCapabilities', () => {
  it("keeps the client's exact text, including numbers and unknown members", () => {
    const text =
      '{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{},"experimental":{"tasks":{"n":1.0}},' +
      '"vendor":[9223372036854775807],"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]}}}';
    const capabilities = parseLossless(text);
    expect(JSON.stringify(translatedCapabilities(Object(capabilities), true))).toBe(text);
  });

  it('omits tasks and the list changes of roots', () => {
    expect(
      translatedCapabilities(
        {
          tasks: { list: {}, requests: { elicitation: { create: {} } } },
          roots: { listChanged: true, vendor: 1 },
          extensions: { 'io.modelcontextprotocol/tasks': {}, tasks: {}, 'example.com/tasks2': {} },
        },
        true,
      ),
    ).toEqual({ roots: { vendor: 1 }, extensions: { 'example.com/tasks2': {} } });
  });

  it('omits capabilities for server requests if the client supports none', () => {
    const capabilities = { elicitation: {}, sampling: {}, roots: { listChanged: true }, experimental: { a: {} } };
    expect(translatedCapabilities(capabilities, false)).toEqual({ experimental: { a: {} } });
    expect(capabilities).toEqual({
      elicitation: {},
      sampling: {},
      roots: { listChanged: true },
      experimental: { a: {} },
    });
  });

  it('survives members of other types', () => {
    const capabilities = { roots: true, extensions: null, tasks: 1 };
    expect(translatedCapabilities(capabilities, true)).toEqual({ roots: true, extensions: null });
  });
});

describe('supportsServerRequests', () => {
  it('is true for each capability that allows server requests', () => {
    expect(supportsServerRequests({ elicitation: {} })).toBe(true);
    expect(supportsServerRequests({ sampling: {} })).toBe(true);
    expect(supportsServerRequests({ roots: {} })).toBe(true);
  });

  it('is false for others, and for members that are null or false', () => {
    expect(supportsServerRequests({})).toBe(false);
    expect(supportsServerRequests({ tasks: {}, extensions: { 'a/b': {} } })).toBe(false);
    expect(supportsServerRequests({ elicitation: null, sampling: false })).toBe(false);
  });
});

describe('acceptsServerRequest', () => {
  it("requires the client's modes of elicitation", () => {
    const form = { mode: 'form', message: 'm' };
    const url = { mode: 'url', message: 'm', url: 'http://a' };
    const modes = (elicitation: object | null | boolean | undefined) => {
      const capabilities = Object(elicitation === undefined ? {} : { elicitation });
      return [form, { message: 'm' }, undefined, url].map((params) =>
        acceptsServerRequest(capabilities, 'elicitation/create', params),
      );
    };
    expect(modes(undefined)).toEqual([false, false, false, false]);
    expect(modes(null)).toEqual([false, false, false, false]);
    expect(modes(false)).toEqual([false, false, false, false]);
    expect(modes({})).toEqual([true, true, true, false]);
    expect(modes(true)).toEqual([true, true, true, false]);
    expect(modes({ form: {} })).toEqual([true, true, true, false]);
    expect(modes({ url: {} })).toEqual([false, false, false, true]);
    expect(modes({ form: {}, url: {} })).toEqual([true, true, true, true]);
    expect(modes({ form: {}, url: false })).toEqual([true, true, true, false]);
    expect(modes({ form: null, url: null })).toEqual([true, true, true, false]);
  });

  it('has no other mode', () => {
    const capabilities = { elicitation: { form: {}, url: {}, voice: {} } };
    expect(acceptsServerRequest(capabilities, 'elicitation/create', { mode: 'voice' })).toBe(false);
    expect(acceptsServerRequest(capabilities, 'elicitation/create', { mode: 1 })).toBe(false);
  });

  it('requires sampling, with tools only if the client supports them', () => {
    const plain = { messages: [], maxTokens: 1 };
    expect(acceptsServerRequest({}, 'sampling/createMessage', plain)).toBe(false);
    expect(acceptsServerRequest({ sampling: {} }, 'sampling/createMessage', plain)).toBe(true);
    for (const params of [
      { ...plain, tools: [] },
      { ...plain, toolChoice: { mode: 'auto' } },
    ]) {
      expect(acceptsServerRequest({ sampling: {} }, 'sampling/createMessage', params)).toBe(false);
      expect(acceptsServerRequest({ sampling: { tools: null } }, 'sampling/createMessage', params)).toBe(false);
      expect(acceptsServerRequest({ sampling: { tools: {} } }, 'sampling/createMessage', params)).toBe(true);
    }
    expect(
      acceptsServerRequest({ sampling: {} }, 'sampling/createMessage', { ...plain, tools: null, toolChoice: null }),
    ).toBe(true);
  });

  it('requires roots', () => {
    expect(acceptsServerRequest({ roots: {} }, 'roots/list', undefined)).toBe(true);
    expect(acceptsServerRequest({ roots: { listChanged: true } }, 'roots/list', {})).toBe(true);
    expect(acceptsServerRequest({ roots: null }, 'roots/list', {})).toBe(false);
    expect(acceptsServerRequest({ elicitation: {}, sampling: {} }, 'roots/list', {})).toBe(false);
  });

  it('is undefined for any other method', () => {
    const all = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {}, ping: {} };
    for (const method of ['ping', 'tools/list', 'elicitation', 'roots/list ', '']) {
      expect(acceptsServerRequest(all, method, {})).toBe(false);
    }
  });
});
