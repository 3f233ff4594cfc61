import { describe, expect, it } from 'vitest';
import { evaluatorWit } from '../fixtures/evaluator-wit.ts';
import { writtenAction } from '../fixtures/hostile/core-action.ts';
import { judged, tools } from './component-tools.fixture.ts';

/** Our world without comments, on one line. */
const world = evaluatorWit.replace(/\/\/.*/g, '').replace(/\s+/g, ' ');

/** A component of which only the interface counts: it uses all of a world that is ours with a difference. */
function ofWorld(edit: (wit: string) => string): Uint8Array {
  const module = tools.componentEmbed({ witSource: edit(world), world: 'evaluator-action', dummy: true });
  return tools.componentNew(module, undefined);
}

/** Our world with one text in it replaced. */
function changed(from: string, to: string): Uint8Array {
  return ofWorld((wit) => {
    if (!wit.includes(from)) throw new Error(`the world has no ${from}`);
    return wit.replace(from, to);
  });
}

/** Our world with more in it, and with packages of others. */
function more(inWorld: string, packages = ''): Uint8Array {
  return ofWorld((wit) => `${wit.replace('export evaluate', `${inWorld} export evaluate`)}\n${packages}`);
}

describe('what may differ from the world', () => {
  it('is nothing', () => {
    expect(() => judged(ofWorld((wit) => wit))).not.toThrow();
  });

  it('is that interfaces and functions are not used', () => {
    judged(changed('import registry; import conversation; import response; import validation; import log;', ''));
    judged(changed('import registry;', ''));
    judged(changed('get-tool: func(name: string) -> option<tool-entry>;', ''));
    judged(changed('filter-tools: func(tool-names: list<string>);', ''));
  });

  it('is what it calls the context', () => {
    judged(
      ofWorld((wit) =>
        wit
          .replace('use types.{evaluation-context};', 'use types.{evaluation-context as given, message};')
          .replace('func(ctx: evaluation-context)', 'func(ctx: given)'),
      ),
    );
  });

  it('is that it writes out the record of the context', () => {
    const members = /record evaluation-context (\{[^}]*\})/.exec(world)?.[1] ?? '';
    const own = (record: string) =>
      changed('use types.{evaluation-context}; export', `record evaluation-context ${record} export`);
    expect(() => judged(own(members))).not.toThrow();
    expect(() => judged(own(members.replace('method: string,', 'method: list<u8>,')))).toThrow('exports "evaluate" as');
    expect(() => judged(own(members.replace('method: string,', '')))).toThrow('exports "evaluate" as');
    expect(() => judged(own(members.replace(/(method: string,)(.*)(namespace: string,)/, '$3$2$1')))).toThrow(
      'exports "evaluate" as',
    );
  });

  it('is what it exports besides', () => {
    judged(more('export init: func(a: string) -> result<_, string>; export handy: interface { f: func(); }'));
    judged(more('export wasi:cli/run@0.2.3;', 'package wasi:cli@0.2.3 { interface run { run: func() -> result; } }'));
  });

  it('is what it imports of WASI 0.2', () => {
    const io = `package wasi:io@0.2.6 {
      interface poll { resource pollable { ready: func() -> bool; } poll: func(in: list<borrow<pollable>>) -> list<u32>; }
      interface all {
        variant v { a, b(string) } flags f { x, y } enum e { one, two } type t = tuple<u8, f32, char>;
        every: func(a: v, b: f, c: e, d: t) -> result<list<s64>>;
      }
    }`;
    judged(more('import wasi:io/poll@0.2.6; import wasi:io/all@0.2.6;', io));
  });
});

describe('what may not', () => {
  const mismatches: readonly (readonly [name: string, from: string, to: string])[] = [
    ['registry.list-tools', 'list-tools: func()', 'list-tools: func(page: u32)'],
    ['registry.get-tool', 'get-tool: func(name: string)', 'get-tool: func(tool: string)'],
    ['registry.get-tool', 'get-tool: func(name: string)', 'get-tool: async func(name: string)'],
    ['registry.copy-tool-to-namespace', '-> bool', '-> u8'],
    ['conversation.get-history', '-> list<message>', '-> list<string>'],
    ['response.block', 'block: func(reason: string)', 'block: func(reason: list<u8>)'],
    ['response.pass', 'pass: func()', 'pass: func() -> bool'],
    ['response.filter-tools', 'list<string>', 'option<string>'],
    ['validation.verify-llm-result', 'result<string, string>', 'result<string>'],
    ['validation.verify-llm-result', 'result<string, string>', 'result<_, string>'],
    ['types.message', 'role: string, content: string', 'content: string, role: string'],
    ['types.message', 'role: string, content: string', 'role: string'],
    ['types.evaluation-context', 'list<tuple<string, string>>', 'list<tuple<string, string, string>>'],
    ['types.evaluation-context', 'tool-name: option<string>', 'tool-name: string'],
    ['types.evaluation-context', 'conversation-id: option<string>,', ''],
  ];

  it.each(mismatches)('is the type of %s: %s, but %s', (name, from, to) => {
    expect(() => judged(changed(from, to))).toThrow(
      `imports "service:evaluator/${name}" with a type of its own; build it with the WIT file`,
    );
  });

  it('is that it imports what there is not', () => {
    expect(() => judged(changed('log { info', 'log { debug: func(message: string); info'))).toThrow(
      'imports "service:evaluator/log.debug", which actions cannot use',
    );
    const foreign = 'package a:b { interface c { f: func(); } }';
    expect(() => judged(more('import a:b/c;', foreign))).toThrow('imports "a:b/c", which actions cannot use');
    expect(() => judged(more('import f: func();'))).toThrow('imports "f", which actions cannot use');
    expect(() => judged(more('import i: interface { f: func(); }'))).toThrow('imports "i", which actions cannot use');
    const own = `interface more { f: func(); }`;
    expect(() => judged(more('import more;', own))).toThrow('imports "service:evaluator/more", which actions cannot');
  });

  it.each(['wasi:keyvalue/store@0.2.0', 'wasi:cli/run@0.3.0', 'wasi:cli/run'])('is that it imports %s', (name) => {
    const [, space, of, version = ''] = /^(.*)\/([^@]*)(@.*)?$/.exec(name) ?? [];
    const component = more(`import ${name};`, `package ${space}${version} { interface ${of} { f: func(); } }`);
    expect(() => judged(component)).toThrow(`imports "${name}", which actions cannot use`);
  });

  it('is a function of WASI that glue would take for a word of JavaScript', () => {
    const component = more('import wasi:cli/x@0.2.0;', 'package wasi:cli@0.2.0 { interface x { arguments: func(); } }');
    expect(() => judged(component)).toThrow('imports "wasi:cli/x@0.2.0.arguments"');
  });

  it('is that it imports a module or a component', async () => {
    const core =
      '(module (memory (export "memory") 1) (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)' +
      '(unreachable)) (func (export "evaluate") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))';
    const component = await writtenAction(core, { before: '(import "c" (component))' });
    expect(() => judged(component)).toThrow('imports "c", a module or component, which actions cannot use; link it');
  });
});

describe('evaluate', () => {
  const evaluate = 'export evaluate: func(ctx: evaluation-context);';
  const wrong: readonly (readonly [signature: string, more: string])[] = [
    ['func()', ''],
    ['func(ctx: string)', ''],
    ['func(context: evaluation-context)', ''],
    ['func(ctx: evaluation-context) -> bool', ''],
    ['func(ctx: evaluation-context, more: bool)', ''],
    ['async func(ctx: evaluation-context)', ''],
    ['func(ctx: option<evaluation-context>)', ''],
    ['func(ctx: mine)', 'record mine { method: string }'],
    ['func(ctx: message)', 'use types.{message};'],
  ];

  it.each(wrong)('must not be %s', (signature, declared) => {
    expect(() => judged(changed(evaluate, `${declared} export evaluate: ${signature};`))).toThrow(
      `exports "evaluate" as ${signature}; actions need func(ctx: evaluation-context)`,
    );
  });

  it('must be there, outside of any interface', () => {
    const message = 'exports no function "evaluate"; export it, outside of any interface';
    expect(() => judged(changed(evaluate, ''))).toThrow(message);
    expect(() => judged(changed(evaluate, 'export main: interface { evaluate: func(); }'))).toThrow(message);
    expect(() => judged(changed(evaluate, 'export %evaluate: interface { f: func(); }'))).toThrow(
      'exports "evaluate" as interface',
    );
  });

  it('must not be written in documentation only', () => {
    const documented = changed(
      evaluate,
      '/// }\n  ///  export evaluate: func(ctx: evaluation-context);\nexport f: func();',
    );
    expect(() => judged(documented)).toThrow('exports no function "evaluate"');
  });
});

describe('words of JavaScript', () => {
  it.each(['then', 'constructor', 'arguments', 'is-finite', 'to-string', 'memory0', 'get-core-module'])(
    'such as %s are no names of exports',
    (name) => {
      expect(() => judged(more(`export %${name}: func();`))).toThrow(
        `exports "${name}", a word of JavaScript; rename it`,
      );
    },
  );
});
