import type { MethodDefinition } from '@grpc/grpc-js';
import { type AnyDefinition, loadSync } from '@grpc/proto-loader';
import { describe, expect, test } from 'vitest';
import { loadProtocols, PROTO_FOLDER } from './protocols.ts';

const FILES = ['tool.proto', 'provision.proto', 'resource.proto', 'codeexecution.proto', 'health.proto'];

/** What of a loaded message or enum the tables of the specification speak of. */
interface Described {
  readonly field?: readonly { name: string; number: number; type: string; label: string; typeName: string }[];
  readonly nestedType?: readonly { name: string; field: Described['field'] }[];
  readonly value?: readonly { name: string; number: number }[];
}

const loaded: Readonly<Record<string, AnyDefinition>> = loadSync(FILES, {
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

/** The fields of a message as the tables write them: `arguments map<string,string> 3`. */
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

describe('the messages are those of the specification, by name, type and number', () => {
  test.each<[string, string[]]>([
    [
      'tool.ToolInvokeRequest',
      [
        'uri string 1',
        'body string 2',
        'arguments map<string,string> 3',
        'configurationURI string 4',
        'secretsURI string 5',
        'headers map<string,string> 6',
      ],
    ],
    ['tool.ToolInvokeReply', ['isError bool 1', 'content repeated string 2']],
    ['resource.ResourceReply', ['isError bool 1', 'content repeated string 2']],
    [
      'resource.ResourceRequest',
      [
        'location string 1',
        'type string 2',
        'name string 3',
        'params map<string,string> 4',
        'configurationURI string 5',
        'secretsURI string 6',
      ],
    ],
    [
      'codeexecution.CodeExecutionRequest',
      [
        'uri string 1',
        'body string 2',
        'code string 3',
        'arguments map<string,string> 4',
        'configurationURI string 5',
        'secretsURI string 6',
        'timeout int64 7',
        'environment map<string,string> 8',
      ],
    ],
    [
      'codeexecution.CodeExecutionReply',
      [
        'isError bool 1',
        'content repeated string 2',
        'outputType OutputType 3',
        'status ExecutionStatus 4',
        'exitCode int32 5',
        'timestamp int64 6',
      ],
    ],
    ['tool.ProvisionRequest', ['uri string 1', 'configuration Configuration 2', 'secret Secret 3']],
    ['tool.Configuration', ['type PayloadType 1', 'name string 2', 'payload string 3']],
    ['tool.Secret', ['type PayloadType 1', 'name string 2', 'payload string 3']],
    [
      'tool.ProvisionReply',
      ['configurationUri string 1', 'secretUri string 2', 'properties map<string,PropertySchema> 3'],
    ],
    ['tool.PropertySchema', ['type string 1', 'description string 2', 'required bool 3']],
    ['health.HealthProbeRequest', ['id string 1']],
    ['health.HealthProbeReply', ['status RuntimeStatus 1']],
  ])('%s', (name, fields) => {
    expect(fieldsOf(name)).toEqual(fields);
  });
});

test.each<[string, string[]]>([
  ['codeexecution.OutputType', ['STDOUT 0', 'STDERR 1', 'STATUS 2', 'COMPLETION 3']],
  ['codeexecution.ExecutionStatus', ['PENDING 0', 'RUNNING 1', 'COMPLETED 2', 'FAILED 3', 'CANCELLED 4', 'TIMEOUT 5']],
  ['tool.PayloadType', ['REFERENCE 0', 'BUILTIN 1']],
  ['health.RuntimeStatus', ['STOPPED 0', 'STOPPING 1', 'STARTING 2', 'STARTED 3']],
])('the values of %s are those of the specification', (name, values) => {
  expect(described(name).value?.map((value) => `${value.name} ${value.number}`)).toEqual(values);
});

test('the methods are those of decisions 2.12, and only code comes as a stream', () => {
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
