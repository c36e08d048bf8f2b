"""The tree that a run returns: an xarray tree that can be written to netCDF whatever its attributes hold."""

import json
from typing import Any

import xarray as xr

from gadabout.files import json_value
from gadabout.models.missing import is_there


class Result(xr.DataTree):
    """An `xarray.DataTree` whose attributes may be dicts and lists."""

    __slots__ = ()

    def to_netcdf(self, *args: Any, **kwargs: Any) -> Any:
        """Writes a netCDF file, as `xarray.DataTree.to_netcdf` does.

        netCDF attributes are numbers and text only. Others are written as JSON, which `json.loads` reads.

        Raises:
            ImportError: if neither h5netcdf with h5py nor netCDF4 is installed.
        """
        if not (is_there("h5netcdf") and is_there("h5py")) and not is_there("netCDF4"):
            raise ImportError("to_netcdf needs h5netcdf and h5py, or netCDF4: pip install 'gadabout[netcdf]'")
        groups = self.to_dict(relative=True).items()
        plain = xr.DataTree.from_dict({path: group.drop_encoding() for path, group in groups})
        plain.attrs = _plain(self.attrs)
        return plain.to_netcdf(*args, **kwargs)


def _plain(attributes: dict[Any, Any]) -> dict[Any, Any]:
    """The attributes, with all values but numbers and text as JSON."""
    simple = lambda value: isinstance(value, str | int | float) and not isinstance(value, bool)
    return {name: value if simple(value) else json.dumps(json_value(value)) for name, value in attributes.items()}
