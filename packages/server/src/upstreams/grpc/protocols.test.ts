import type { MethodDefinition } from '@grpc/grpc-js';
import { type AnyDefinition, loadSync } from '@grpc/proto-loader';
import { expect, test } from 'vitest';
import { loadProtocols, PROTO_FILES, PROTO_FOLDER } from './channels.ts';
import { AGREED_MESSAGES } from './fixtures/protocol-messages.ts';

/** The parts of a loaded message or enum that are in the tables of the specification. */
interface Described {
  readonly field?: readonly { name: string; number: number; type: string; label: string; typeName: string }[];
  readonly nestedType?: readonly { name: string; field: Described['field'] }[];
  readonly value?: readonly { name: string; number: number }[];
}

const loaded: Readonly<Record<string, AnyDefinition>> = loadSync([...PROTO_FILES], {
  includeDirs: [PROTO_FOLDER],
  keepCase: true,
});

function described(name: string): Described {
  const definition = loaded[name];
  if (!definition || !('format' in definition) || !isDescribed(definition.type)) throw new Error(`no ${name}`);
  return definition.type;
}

function isDescribed(type: object): type is Described {
  return 'field' in type || 'value' in type;
}

/** Fields of a message in the notation of the tables: `arguments map<string,string> 3`. */
function fieldsOf(name: string): string[] {
  const { field = [], nestedType = [] } = described(name);
  const typeOf = (of: (typeof field)[number]): string => {
    const entry = nestedType.find((nested) => nested.name === of.typeName);
    if (entry) return `map<${entry.field?.map(typeOf).join(',')}>`;
    const plain = of.typeName ? (of.typeName.split('.').at(-1) ?? '') : of.type.replace('TYPE_', '').toLowerCase();
    return of.label === 'LABEL_REPEATED' ? `repeated ${plain}` : plain;
  };
  return field.map((of) => `${of.name} ${typeOf(of)} ${of.number}`);
}

test.each(Object.entries(AGREED_MESSAGES))('%s has the agreed fields by name, type and number', (name, agreed) => {
  const { value } = described(name);
  expect((value?.map((of) => `${of.name} ${of.number}`) ?? fieldsOf(name)).join(', ')).toBe(agreed);
});

test('there are no other messages and enumerations', () => {
  const defined = Object.entries(loaded).filter(([, definition]) => 'format' in definition);
  expect(defined.map(([name]) => name).toSorted()).toEqual(Object.keys(AGREED_MESSAGES).toSorted());
});

test('the methods are the documented ones, and only code execution streams', () => {
  const { toolInvoker, provisioner, resourceAcquirer, codeExecutor, healthProbe } = loadProtocols();
  const services = [toolInvoker, provisioner, resourceAcquirer, codeExecutor, healthProbe];
  const methods = services.flatMap((service) => Object.values<MethodDefinition<object, object>>(service));
  expect(methods.map(({ path, requestStream, responseStream }) => [path, requestStream, responseStream])).toEqual([
    ['/tool.ToolInvoker/InvokeTool', false, false],
    ['/tool.Provisioner/Provision', false, false],
    ['/resource.ResourceAcquirer/ResourceAcquire', false, false],
    ['/codeexecution.CodeExecutor/ExecuteCode', false, true],
    ['/health.HealthProbe/Probe', false, false],
    ['/health.HealthProbe/GetStatus', false, false],
  ]);
});
