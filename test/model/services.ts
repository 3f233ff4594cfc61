import type { JsonObject } from '@sluice/protocol/json/parse';
import { invalid, readBody, SHAPES } from './bodies.ts';
import { labelsOf } from './entries.ts';
import { type ApiRequest, type ApiResponse, notFound, Rejection } from './request.ts';
import type { Service, State } from './state.ts';

/** Calls on `/api/v1/services`. */
export function callServices(state: State, { method, name, query = {}, body }: ApiRequest): ApiResponse {
  if (name === undefined) {
    return method === 'GET' ? { status: 200, data: state.services.map(({ view }) => view) } : create(state, body);
  }
  const { serviceType } = query;
  if (serviceType !== undefined && !SHAPES.service.members.serviceType.oneOf.some((type) => type === serviceType))
    throw new Rejection(400, 'BAD_REQUEST');
  const matching = state.services.filter(
    (service) => service.name === name && (serviceType === undefined || service.serviceType === serviceType),
  );
  const [first] = matching;
  if (!first) throw notFound('service', name);
  if (method === 'DELETE') {
    state.services = state.services.filter((service) => !matching.includes(service));
    return { status: 200, data: { removed: name, count: matching.length } };
  }
  return {
    status: 200,
    data: matching.length === 1 ? first.view : { ...first.view, entries: matching.map(({ view }) => view) },
  };
}

/** A new one is appended, an existing one is replaced in place. */
function create(state: State, text: string | undefined): ApiResponse {
  const body = readBody(text, SHAPES.service);
  const { host, port } = hostAndPort(body);
  const { serviceSubType, languageName, id } = body;
  const name = String(body.name);
  const serviceType = String(body.serviceType);
  const service: Service = {
    ...{ name, serviceType },
    serviceSubType: typeof serviceSubType === 'string' ? serviceSubType : undefined,
    languageName: typeof languageName === 'string' ? languageName : undefined,
    view: {
      ...{ name, host, port, address: `${host}:${port}`, serviceType, labels: { ...labelsOf(body) } },
      ...(serviceSubType !== undefined && { serviceSubType }),
      ...(languageName !== undefined && { languageName }),
      ...(id !== undefined && { id }),
    },
  };
  const known = state.services.findIndex(
    (other) =>
      other.name === name &&
      other.serviceType === serviceType &&
      other.serviceSubType === service.serviceSubType &&
      other.languageName === service.languageName,
  );
  if (known !== -1) {
    state.services[known] = service;
    return { status: 200, data: service.view };
  }
  state.services.push(service);
  const location = `/api/v1/services/${encodeURIComponent(name)}?serviceType=${serviceType}`;
  return { status: 201, data: service.view, location };
}

/** `address`, or `host` and `port`. */
function hostAndPort({ address, host, port }: JsonObject): { host: string; port: number } {
  if (typeof address !== 'string') {
    if (typeof host !== 'string') throw invalid(['address']);
    if (typeof port !== 'number') throw invalid(['port']);
    return { host, port };
  }
  const [, name = '', digits = ''] = /^(.*):(\d+)$/.exec(address) ?? [];
  return { host: name, port: Number(digits) };
}
