// Original file: proto/resource.proto


export interface ResourceRequest {
  'location'?: (string);
  'type'?: (string);
  'name'?: (string);
  'params'?: ({[key: string]: string});
  'configurationURI'?: (string);
  'secretsURI'?: (string);
}

export interface ResourceRequest__Output {
  'location': (string);
  'type': (string);
  'name': (string);
  'params': ({[key: string]: string});
  'configurationURI': (string);
  'secretsURI': (string);
}
