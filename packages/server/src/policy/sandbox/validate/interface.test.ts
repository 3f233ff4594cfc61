import { describe, expect, it } from 'vitest';
import { evaluatorWit } from '../fixtures/evaluator-wit.ts';
import { writtenAction } from '../fixtures/hostile/core-action.ts';
import { tools, validate } from './component-tools.fixture.ts';

/** The world of actions without comments, on one line. */
const world = evaluatorWit.replace(/\/\/.*/g, '').replace(/\s+/g, ' ');

/** Dummy component that uses all of an edited world. */
function ofWorld(edit: (wit: string) => string): Uint8Array {
  const module = tools.componentEmbed({ witSource: edit(world), world: 'evaluator-action', dummy: true });
  return tools.componentNew(module, undefined);
}

/** The same with one text of the world replaced. */
function changed(from: string, to: string): Uint8Array {
  return ofWorld((wit) => {
    if (!wit.includes(from)) throw new Error(`the world has no ${from}`);
    return wit.replace(from, to);
  });
}

/** The same with additions to the world and further packages. */
function more(inWorld: string, packages = ''): Uint8Array {
  return ofWorld((wit) => `${wit.replace('export evaluate', `${inWorld} export evaluate`)}\n${packages}`);
}

describe('allowed differences from the world', () => {
  it('may be none', () => {
    expect(() => validate(ofWorld((wit) => wit))).not.toThrow();
  });

  it('include unused interfaces and functions', () => {
    validate(changed('import registry; import conversation; import response; import validation; import log;', ''));
    validate(changed('import registry;', ''));
    validate(changed('get-tool: func(name: string) -> option<tool-entry>;', ''));
    validate(changed('filter-tools: func(tool-names: list<string>);', ''));
  });

  it('include the name of the context type', () => {
    validate(
      ofWorld((wit) =>
        wit
          .replace('use types.{evaluation-context};', 'use types.{evaluation-context as given, message};')
          .replace('func(ctx: evaluation-context)', 'func(ctx: given)'),
      ),
    );
  });

  it('include a context record defined in the world', () => {
    const members = /record evaluation-context (\{[^}]*\})/.exec(world)?.[1] ?? '';
    const own = (record: string) =>
      changed('use types.{evaluation-context}; export', `record evaluation-context ${record} export`);
    expect(() => validate(own(members))).not.toThrow();
    expect(() => validate(own(members.replace('method: string,', 'method: list<u8>,')))).toThrow(
      'export "evaluate" has the type',
    );
    expect(() => validate(own(members.replace('method: string,', '')))).toThrow('export "evaluate" has the type');
    expect(() => validate(own(members.replace(/(method: string,)(.*)(namespace: string,)/, '$3$2$1')))).toThrow(
      'export "evaluate" has the type',
    );
  });

  it('include additional exports', () => {
    validate(more('export init: func(a: string) -> result<_, string>; export handy: interface { f: func(); }'));
    validate(more('export wasi:cli/run@0.2.3;', 'package wasi:cli@0.2.3 { interface run { run: func() -> result; } }'));
  });

  it('include imports of WASI 0.2', () => {
    const io = `package wasi:io@0.2.6 {
      interface poll { resource pollable { ready: func() -> bool; } poll: func(in: list<borrow<pollable>>) -> list<u32>; }
      interface all {
        variant v { a, b(string) } flags f { x, y } enum e { one, two } type t = tuple<u8, f32, char>;
        every: func(a: v, b: f, c: e, d: t) -> result<list<s64>>;
      }
    }`;
    validate(more('import wasi:io/poll@0.2.6; import wasi:io/all@0.2.6;', io));
  });
});

describe('rejected differences from the world', () => {
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

  it.each(mismatches)('include the type of %s: %s as %s', (name, from, to) => {
    expect(() => validate(changed(from, to))).toThrow(
      `import "service:evaluator/${name}" has a different type; build the component with the WIT file`,
    );
  });

  it('include unknown imports', () => {
    expect(() => validate(changed('log { info', 'log { debug: func(message: string); info'))).toThrow(
      'import "service:evaluator/log.debug" is not available to actions',
    );
    const foreign = 'package a:b { interface c { f: func(); } }';
    expect(() => validate(more('import a:b/c;', foreign))).toThrow('import "a:b/c" is not available to actions');
    expect(() => validate(more('import f: func();'))).toThrow('import "f" is not available to actions');
    expect(() => validate(more('import i: interface { f: func(); }'))).toThrow(
      'import "i" is not available to actions',
    );
    const own = `interface more { f: func(); }`;
    expect(() => validate(more('import more;', own))).toThrow(
      'import "service:evaluator/more" is not available to actions',
    );
  });

  it.each(['wasi:keyvalue/store@0.2.0', 'wasi:cli/run@0.3.0', 'wasi:cli/run'])('include the import %s', (name) => {
    const [, space, of, version = ''] = /^(.*)\/([^@]*)(@.*)?$/.exec(name) ?? [];
    const component = more(`import ${name};`, `package ${space}${version} { interface ${of} { f: func(); } }`);
    expect(() => validate(component)).toThrow(`import "${name}" is not available to actions`);
  });

  it('include a WASI function with a reserved name of JavaScript', () => {
    const component = more('import wasi:cli/x@0.2.0;', 'package wasi:cli@0.2.0 { interface x { arguments: func(); } }');
    expect(() => validate(component)).toThrow('import "wasi:cli/x@0.2.0.arguments"');
  });

  it('include such a function whose type is short, but long with its parts in place', () => {
    const types = Array.from({ length: 16 }, (_, at) => `type t${at + 1} = tuple<t${at}, t${at}>;`).join(' ');
    const importing = (name: string) =>
      more(
        'import wasi:cli/x@0.2.0;',
        `package wasi:cli@0.2.0 { interface x { type t0 = u8; ${types} ${name}: func(a: t16) -> t16; } }`,
      );
    expect(() => validate(importing('harmless'))).not.toThrow();
    expect(() => validate(importing('arguments'))).toThrow('import "wasi:cli/x@0.2.0.arguments"');
  });

  it('include imports of modules and components', async () => {
    const core =
      '(module (memory (export "memory") 1) (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)' +
      '(unreachable)) (func (export "evaluate") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))';
    const component = await writtenAction(core, { before: '(import "c" (component))' });
    expect(() => validate(component)).toThrow(
      'import "c" is a module or component, which is not supported; link it into the component',
    );
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
    expect(() => validate(changed(evaluate, `${declared} export evaluate: ${signature};`))).toThrow(
      `export "evaluate" has the type ${signature}; expected func(ctx: evaluation-context)`,
    );
  });

  it('must be exported outside of any interface', () => {
    const message = 'missing export "evaluate"; export the function outside of any interface';
    expect(() => validate(changed(evaluate, ''))).toThrow(message);
    expect(() => validate(changed(evaluate, 'export main: interface { evaluate: func(); }'))).toThrow(message);
    expect(() => validate(changed(evaluate, 'export %evaluate: interface { f: func(); }'))).toThrow(
      'export "evaluate" has the type interface',
    );
  });

  it('must not be in documentation only', () => {
    const documented = changed(
      evaluate,
      '/// }\n  ///  export evaluate: func(ctx: evaluation-context);\nexport f: func();',
    );
    expect(() => validate(documented)).toThrow('missing export "evaluate"');
  });
});

describe('reserved names of JavaScript', () => {
  it.each(['then', 'constructor', 'arguments', 'is-finite', 'to-string', 'memory0', 'get-core-module'])(
    'are rejected as exports: %s',
    (name) => {
      expect(() => validate(more(`export %${name}: func();`))).toThrow(
        `export "${name}" is reserved in JavaScript; rename it`,
      );
    },
  );
});
