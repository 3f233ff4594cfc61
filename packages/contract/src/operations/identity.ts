import { z } from 'zod';
import {
  activeIdentity,
  identityInput,
  identityRevision,
  identityRevisionContent,
  identityStatus,
} from '../schemas/identity.ts';
import { activationInput } from '../schemas/revisions.ts';
import { defineOperation } from './operation.ts';
import { LOCK_OUT, REVISION_ETAG, REVISION_IF_MATCH } from './revisions.ts';

const tag = 'identity';
const path = '/api/v1/identity';

const id = z.number().int().positive().describe('Revision number.');

const active = { description: 'The active settings', data: activeIdentity, etag: REVISION_ETAG } as const;

const EFFECT =
  'It counts for the next request on every connection, on all replicas before the response. Requests, streams and sessions that it does not accept any more end.';

/** `/api/v1/identity`. */
export const identityOperations = {
  get: defineOperation({
    id: 'getIdentity',
    method: 'GET',
    path,
    right: 'read_bodies',
    tag,
    summary: 'Get who may call, and their roles',
    description: 'It has no secret: keys are hashes, and those of token issuers are public.',
    responses: {
      200: {
        description: 'The active settings; null if none were ever configured',
        data: activeIdentity.nullable(),
        etag: REVISION_ETAG,
      },
    },
    errors: [],
  }),
  replace: defineOperation({
    id: 'replaceIdentity',
    method: 'PUT',
    path,
    right: 'administer',
    tag,
    summary: 'Replace who may call, and their roles',
    description: `Replaces all settings. ${EFFECT} \`details\` of \`UNPROCESSABLE\` has all problems. Files have their name and text here, not their path. ${REVISION_IF_MATCH}`,
    query: LOCK_OUT,
    body: { kind: 'identity', schema: identityInput, maxBytes: 4 * 1024 * 1024 },
    responses: { 200: active },
    errors: ['CONFLICT', 'UNPROCESSABLE'],
  }),
  status: defineOperation({
    id: 'getIdentityStatus',
    method: 'GET',
    path: `${path}/status`,
    right: 'read_bodies',
    tag,
    summary: 'Get warnings of the active settings, and the last use and expiry of keys',
    description: 'The last use is that at the replica that answers.',
    responses: { 200: { description: 'The status', data: identityStatus } },
    errors: [],
  }),
  revisions: defineOperation({
    id: 'listIdentityRevisions',
    method: 'GET',
    path: `${path}/revisions`,
    right: 'read_bodies',
    tag,
    summary: 'List identity revisions',
    description: 'At most 50 revisions are stored, including the active one.',
    responses: { 200: { description: 'Revisions, newest first', data: z.array(identityRevision) } },
    errors: [],
  }),
  activeRevision: defineOperation({
    id: 'getActiveIdentityRevision',
    method: 'GET',
    path: `${path}/revisions/active`,
    right: 'read_bodies',
    tag,
    summary: 'Get the active identity revision',
    responses: { 200: { description: 'The revision', data: identityRevisionContent } },
    errors: ['NOT_FOUND'],
  }),
  revision: defineOperation({
    id: 'getIdentityRevision',
    method: 'GET',
    path: `${path}/revisions/{id}`,
    right: 'read_bodies',
    pathParameter: id,
    tag,
    summary: 'Get an identity revision',
    responses: { 200: { description: 'The revision', data: identityRevisionContent } },
    errors: ['NOT_FOUND'],
  }),
  activate: defineOperation({
    id: 'activateIdentityRevision',
    method: 'POST',
    path: `${path}/revisions/{id}/activate`,
    right: 'administer',
    pathParameter: id,
    tag,
    summary: 'Activate an identity revision',
    description: `Submits the settings of the revision again, as a new revision. ${EFFECT} The body is optional. ${REVISION_IF_MATCH}`,
    query: LOCK_OUT,
    body: { kind: 'activation', schema: activationInput, optional: true },
    responses: { 200: active },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE'],
  }),
};
