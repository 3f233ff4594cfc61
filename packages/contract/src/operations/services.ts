import { z } from 'zod';
import {
  provisionInput,
  provisionResult,
  service,
  serviceDeleteResult,
  serviceDetails,
  serviceInput,
  serviceType,
} from '../schemas/services.ts';
import { defineOperation, type QueryParameter } from './operation.ts';

const tag = 'services';
const path = '/api/v1/services';
const select = {
  serviceType: {
    description: 'Filter by type, if several entries share the name.',
    values: serviceType.options,
  },
} satisfies Record<string, QueryParameter>;

/** `/api/v1/services`. */
export const serviceOperations = {
  list: defineOperation({
    id: 'listServices',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List capability services',
    responses: { 200: { description: 'Service entries in order of registration', data: z.array(service) } },
    errors: [],
  }),
  create: defineOperation({
    id: 'createService',
    method: 'POST',
    path,
    right: 'change_registry',
    tag,
    summary: 'Register a capability service',
    description:
      'Registers the gRPC address of a capability service. Name, type, subtype and language identify the entry.',
    body: { kind: 'service', schema: serviceInput },
    responses: {
      200: { description: 'Replaced entry', data: service },
      201: { description: 'Registered entry', data: service, location: true },
    },
    errors: [],
  }),
  get: defineOperation({
    id: 'getService',
    method: 'GET',
    path: `${path}/{name}`,
    right: 'read',
    tag,
    summary: 'Get a capability service',
    query: select,
    responses: {
      200: {
        description: 'First registered entry. If several entries share the name, `entries` lists all of them',
        data: serviceDetails,
      },
    },
    errors: ['NOT_FOUND'],
  }),
  remove: defineOperation({
    id: 'deleteService',
    method: 'DELETE',
    path: `${path}/{name}`,
    right: 'change_registry',
    tag,
    summary: 'Delete a capability service',
    query: select,
    responses: { 200: { description: 'Name and number of deleted entries', data: serviceDeleteResult } },
    errors: ['NOT_FOUND'],
  }),
  provision: defineOperation({
    id: 'provisionService',
    method: 'POST',
    path: `${path}/{name}/provisions`,
    right: 'change_registry',
    tag,
    summary: 'Store configuration and secrets in a capability service',
    description:
      'Calls the first registered entry of the name. Configuration and secrets are not stored, logged or included in errors.',
    query: select,
    body: { kind: 'provision', schema: provisionInput },
    responses: { 200: { description: 'References to the stored configuration and secrets', data: provisionResult } },
    errors: ['NOT_FOUND', 'BAD_GATEWAY'],
  }),
};
