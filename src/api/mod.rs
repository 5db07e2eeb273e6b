//! All REST routes in one list, one file per resource.
