import { z } from 'zod';
import { provisioned, provisionInput } from '../provision.ts';
import { service, serviceInput, servicesOfName, servicesRemoved, serviceType } from '../service-entry.ts';
import { operation, type QueryParameter } from './operation.ts';

const tag = 'services';
const path = '/api/v1/services';
const select = {
  serviceType: {
    description: 'Only entries of this type, where several share the name.',
    values: serviceType.options,
  },
} satisfies Record<string, QueryParameter>;

/** `/api/v1/services` (specification, "Endpoints"; decisions 2.8, 4.1, 4.2). */
export const serviceOperations = {
  list: operation({
    id: 'listServices',
    method: 'GET',
    path,
    tag,
    summary: 'List the capability services',
    answers: { 200: { description: 'The entries, in order of registration.', data: z.array(service) } },
    failures: [],
  }),
  create: operation({
    id: 'createService',
    method: 'POST',
    path,
    tag,
    summary: 'Register the gRPC address of a capability service',
    description: 'Name, type, subtype and language are its key.',
    body: { kind: 'service', schema: serviceInput },
    answers: {
      200: { description: 'The key was known: the entry is replaced.', data: service },
      201: { description: 'The entry.', data: service, location: true },
    },
    failures: [],
  }),
  get: operation({
    id: 'getService',
    method: 'GET',
    path: `${path}/{name}`,
    tag,
    summary: 'Read the entry of a capability service',
    query: select,
    answers: {
      200: {
        description: 'The entry registered first; with several of the name, all of them in `entries`.',
        data: servicesOfName,
      },
    },
    failures: ['NOT_FOUND'],
  }),
  remove: operation({
    id: 'deleteService',
    method: 'DELETE',
    path: `${path}/{name}`,
    tag,
    summary: 'Delete the entries of a capability service',
    query: select,
    answers: { 200: { description: 'Its name, and how many entries it had.', data: servicesRemoved } },
    failures: ['NOT_FOUND'],
  }),
  provision: operation({
    id: 'provisionService',
    method: 'POST',
    path: `${path}/{name}/provisions`,
    tag,
    summary: 'Have a capability service keep configuration and secrets',
    description:
      'With several entries of the name, the one registered first is asked. Neither is kept or logged on the way, and a failure says nothing of them.',
    query: select,
    body: { kind: 'provision', schema: provisionInput },
    answers: { 200: { description: 'Where the service keeps them.', data: provisioned } },
    failures: ['NOT_FOUND', 'BAD_GATEWAY'],
  }),
};
